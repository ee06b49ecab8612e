package cyborgclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Headers of microversion negotiation.
const (
	headerVersion    = "OpenStack-API-Version"
	headerMaxVersion = "OpenStack-API-Maximum-Version"
)

// Minor versions from which something exists. Every call sends the lowest one
// that suffices, 2.0 included: a server that reads the header then answers
// what this package was written against, whatever its default.
const (
	minorBase          = 0
	minorProject       = 1 // PATCH may carry /project_id
	minorProfileByName = 2 // GET device_profiles/{name}
	minorDeviceStatus  = 3 // "status" of devices
)

// versionHeader is the value of OpenStack-API-Version for a minor version.
func versionHeader(minor int) string { return "accelerator 2." + strconv.Itoa(minor) }

// parseMinor reads the minor version of "2.N".
func parseMinor(text string) (minor int, ok bool) {
	digits, found := strings.CutPrefix(strings.TrimSpace(text), "2.")
	if !found {
		return 0, false
	}
	minor, err := strconv.Atoi(digits)
	return minor, err == nil && minor >= 0 && minor < 1000
}

// learn keeps the highest version that the server says it serves. Every
// answer of Cyborg's v2 router carries it, so a server that is upgraded while
// the client lives is noticed.
func (c *Client) learn(text string) {
	if minor, ok := parseMinor(text); ok {
		c.maxMinor.Store(int32(minor) + 1)
	}
}

// known is the highest minor version of the server, if any answer told it.
func (c *Client) known() (minor int, ok bool) {
	stored := c.maxMinor.Load()
	return int(stored) - 1, stored > 0
}

// negotiate picks the minor version for r. Only calls that need more than 2.0
// look for the server's maximum; when it cannot be found out, the lowest
// sufficient version is sent and the server judges (406).
func (c *Client) negotiate(ctx context.Context, r request) (int, error) {
	if r.need == minorBase && r.like == minorBase {
		return minorBase, nil
	}
	highest, ok := c.known()
	if !ok {
		if _, err := c.GetVersion(ctx); err != nil && ctx.Err() != nil {
			return 0, err
		}
		highest, ok = c.known()
	}
	if !ok {
		return r.need, nil
	}
	if highest < r.need {
		return 0, r.failed(ErrMicroversion, errors.New("needs microversion 2."+strconv.Itoa(r.need)+
			", the server's highest is 2."+strconv.Itoa(highest)))
	}
	if highest >= r.like {
		return max(r.need, r.like), nil
	}
	return r.need, nil
}

// GetVersion asks for Cyborg's version document (GET on the endpoint). It
// needs no token. The client calls it by itself, once, before the first
// operation that needs more than 2.0.
func (c *Client) GetVersion(ctx context.Context) (*APIVersion, error) {
	var version *APIVersion
	r := request{op: OpGetVersion, method: http.MethodGet, url: c.versionURL()}
	r.decode = func(body []byte) (err error) {
		version, err = decodeVersion(body)
		return err
	}
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	c.learn(version.MaxVersion)
	return version, nil
}

// decodeVersion reads the bare object of /v2, and the same wrapped as older
// and newer services of OpenStack do.
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
	return nil, errors.New("the version document names no v2")
}
