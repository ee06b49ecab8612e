package cyborgclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Headers of microversion negotiation, in net/http's form.
const (
	headerVersion    = "Openstack-Api-Version"
	headerMaxVersion = "Openstack-Api-Maximum-Version"
)

// Minor versions that introduced a feature. Every call sends the lowest version
// that suffices, 2.0 included, so the answer does not depend on the server's
// default.
const (
	minorBase         = 0
	minorProject      = 1 // PATCH may carry /project_id
	minorDeviceStatus = 3 // "status" of devices
)

// headerForm is a form of the header OpenStack-API-Version. No form is read by every Cyborg: 9.0, 10.0
// and 11.0 read "accelerator 2.N", 10.1 and 12.0 to 16.0 read "2.N", 17.0 reads both. The other form is
// 2.0 to them (cyborg/api/controllers/base.py).
type headerForm int32

// The forms, the first one to try first.
const (
	formWithService headerForm = iota
	formBare
)

// header returns the header for a minor version.
func (f headerForm) header(minor int) string {
	version := "2." + strconv.Itoa(minor)
	if f == formWithService {
		return serviceType + " " + version
	}
	return version
}

func (f headerForm) other() headerForm { return formBare - f }

// parseApplied reads the version that an answer names as the applied one, with or without the service.
// Cyborg names it in every answer, except in a 404, 405 or 406 from its router.
func parseApplied(header http.Header) (minor int, ok bool) {
	return parseMinor(strings.TrimPrefix(header.Get(headerVersion), serviceType+" "))
}

// parseMinor reads the minor version of "2.N".
func parseMinor(text string) (minor int, ok bool) {
	digits, found := strings.CutPrefix(strings.TrimSpace(text), "2.")
	if !found {
		return 0, false
	}
	minor, err := strconv.Atoi(digits)
	return minor, err == nil && minor >= 0 && minor < 1000
}

// learn stores the server's maximum version. Every answer of Cyborg's v2 router
// carries it, so an upgrade of the server is noticed.
func (c *Client) learn(text string) {
	if minor, ok := parseMinor(text); ok {
		c.maxMinor.Store(int32(minor) + 1)
	}
}

// known returns the highest minor version of the server, if an answer named it.
func (c *Client) known() (minor int, ok bool) {
	stored := c.maxMinor.Load()
	return int(stored) - 1, stored > 0
}

// negotiate picks the minor version for r. Only calls that need more than 2.0
// ask for the server's maximum; when it remains unknown, the lowest sufficient
// version is sent and the server answers 406 if it is too high.
func (c *Client) negotiate(ctx context.Context, r request) (int, error) {
	preferred := max(r.need, r.prefer)
	if preferred == minorBase {
		return minorBase, nil
	}
	highest, ok := c.known()
	if !ok || highest < r.need { // it may have been an old worker's answer, or the server is a newer one by now
		if _, err := c.GetVersion(ctx); err != nil && ctx.Err() != nil {
			return 0, err
		}
		highest, ok = c.known()
	}
	switch {
	case !ok:
		return r.need, nil
	case highest < r.need:
		return 0, r.failed(ErrMicroversion, fmt.Errorf("needs microversion 2.%d, the server's highest is 2.%d", r.need, highest))
	case highest < preferred:
		return r.need, nil
	}
	return preferred, nil
}

// exchange sends r in a microversion. Cyborg does not refuse a header in a form that it does not read: the
// answer then names a lower version. The request is repeated in the other form, which is kept for the
// next calls. A PATCH is repeated only after a 406, which Cyborg answers before it changes anything.
func (c *Client) exchange(ctx context.Context, r request, minor int, call *Call) error {
	form := headerForm(c.form.Load())
	applied, err := c.send(ctx, r, form.header(minor), call)
	if !c.misread(applied, minor) || r.changes() && !errors.Is(err, ErrMicroversion) {
		return err
	}
	form = form.other()
	applied, err = c.send(ctx, r, form.header(minor), call)
	if applied == minor {
		c.form.Store(int32(form))
	}
	return err
}

// noVersion is the applied version of an answer that does not name one.
const noVersion = -1

// misread reports that Cyborg applied a lower version than the one asked for, although it supports that.
func (c *Client) misread(applied, asked int) bool {
	highest, ok := c.known()
	return applied != noVersion && applied < asked && (!ok || asked <= highest)
}

// GetVersion returns Cyborg's version document (GET on the endpoint). It needs
// no token. The client itself calls it before an operation that needs more than 2.0, unless
// an earlier answer named a maximum that suffices.
func (c *Client) GetVersion(ctx context.Context) (*APIVersion, error) {
	r := request{op: "accelerator.version.get", url: strings.TrimSuffix(c.service.Endpoint, "/")}
	version, err := call(ctx, c, r, decodeVersion)
	if err != nil {
		return nil, err
	}
	c.learn(version.MaxVersion)
	return version, nil
}

// decodeVersion reads the bare object of /v2, and the wrapped forms that other
// OpenStack services use.
func decodeVersion(body []byte) (*APIVersion, error) {
	var doc struct {
		APIVersion
		Version  *APIVersion  `json:"version"`
		Versions []APIVersion `json:"versions"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	for _, candidate := range append(doc.Versions, doc.APIVersion) {
		if strings.HasPrefix(candidate.ID, "v2") {
			return &candidate, nil
		}
	}
	if doc.Version != nil && strings.HasPrefix(doc.Version.ID, "v2") {
		return doc.Version, nil
	}
	return nil, errors.New("the version document has no v2")
}
