package cyborgclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// CreateARQsOpts says what accelerator requests to make.
type CreateARQsOpts struct {
	DeviceProfileName string `json:"device_profile_name"`
	// ImageUUID is the image of an FPGA. Cyborg reads no such key today;
	// openstackclient sends it.
	ImageUUID string `json:"image_uuid,omitempty"`
}

// CreateARQs makes the accelerator requests of a device profile (POST
// /accelerator_requests): one per unit of each group's resources, in group
// order, doubled for a Xilinx FPGA (cyborg/objects/ext_arq.py). They are in
// state Initial and bound to nothing. The list may be empty; whether that will
// do is the caller's to say.
//
// The call is never repeated. ErrReplyLost means that ARQs may exist that
// nobody knows of; they can be found with ListARQs. ErrNotFound: no such
// profile.
func (c *Client) CreateARQs(ctx context.Context, opts CreateARQsOpts) ([]ARQ, error) {
	ids := []string{opts.DeviceProfileName}
	if err := checkProfileName(opts.DeviceProfileName); err != nil {
		return nil, invalid(OpCreateARQs, ids, "%w", err)
	}
	if opts.ImageUUID != "" {
		if err := checkUUID("image", opts.ImageUUID); err != nil {
			return nil, invalid(OpCreateARQs, ids, "%w", err)
		}
	}
	var arqs []ARQ
	err := c.do(ctx, request{
		op: OpCreateARQs, ids: ids, method: http.MethodPost, url: c.resourceURL(pathARQs), body: opts,
		decode: func(body []byte) (err error) { arqs, err = decodeARQs(body); return err },
	})
	if err != nil {
		return nil, err
	}
	return arqs, nil
}

// ListARQsOpts narrows a list of accelerator requests.
type ListARQsOpts struct {
	// Instance keeps those of one instance (a UUID).
	Instance string
	// Resolved asks the server for resolved ones (bind_state=resolved: Bound,
	// BindFailed, Deleting). Together with Instance the answer is all of the
	// instance's or ErrNotResolved. Nova does not use it: it lists by instance
	// and looks at State.Resolved.
	Resolved bool
}

// ListARQs lists the accelerator requests that the token's project owns, all
// of them for an admin, oldest first (GET /accelerator_requests).
func (c *Client) ListARQs(ctx context.Context, opts ListARQsOpts) ([]ARQ, error) {
	var (
		query pairs
		ids   []string
	)
	if opts.Instance != "" {
		ids = []string{opts.Instance}
		if err := checkUUID("instance", opts.Instance); err != nil {
			return nil, invalid(OpListARQs, ids, "%w", err)
		}
	}
	query.add("instance", opts.Instance)
	if opts.Resolved {
		query.add("bind_state", "resolved")
	}
	var arqs []ARQ
	err := c.do(ctx, request{
		op: OpListARQs, ids: ids, method: http.MethodGet, url: c.queryURL(pathARQs, query),
		decode: func(body []byte) (err error) { arqs, err = decodeARQs(body); return err },
	})
	if err != nil {
		return nil, err
	}
	return arqs, nil
}

// decodeARQs reads {"arqs": [...]}. An ARQ without UUID could never be
// deleted, so an answer with one is not taken as understood.
func decodeARQs(body []byte) ([]ARQ, error) {
	var arqs []ARQ
	if err := member(body, "arqs", &arqs); err != nil {
		return nil, err
	}
	for i, arq := range arqs {
		if arq.UUID == "" {
			return nil, fmt.Errorf("accelerator request %d of the answer has no uuid", i)
		}
	}
	return arqs, nil
}

// GetARQ returns one accelerator request (GET /accelerator_requests/{uuid}).
// ErrNotFound when there is none, or it is another project's.
func (c *Client) GetARQ(ctx context.Context, uuid string) (*ARQ, error) {
	ids := []string{uuid}
	if err := checkUUID("accelerator request", uuid); err != nil {
		return nil, invalid(OpGetARQ, ids, "%w", err)
	}
	var arq ARQ
	err := c.do(ctx, request{
		op: OpGetARQ, ids: ids, method: http.MethodGet, url: c.resourceURL(pathARQs, uuid),
		decode: func(body []byte) error { return bare(body, &arq, &arq.UUID) },
	})
	if err != nil {
		return nil, err
	}
	return &arq, nil
}

// Binding says which device an accelerator request gets, and for whom.
type Binding struct {
	ARQ      string // UUID of the accelerator request
	Host     string // compute node name (hypervisor_hostname), not the service host
	DeviceRP string // UUID of the device's resource provider in Placement
	Instance string // UUID of the instance
	// Project is from 2.1: the project that owns the ARQ from then on; only an
	// admin may say so. Empty: the caller's project.
	Project string
}

// BindARQs binds all accelerator requests of one instance with one PATCH. It
// has to be one: Cyborg refuses (ErrConflict) an instance that already has any.
// Nil means accepted, and with most drivers already done; the state of each
// ARQ tells.
//
// ErrInvalid, without a call: an empty field, a UUID that is none, an ARQ named
// twice, more than one instance (Cyborg would name the first instance in every
// event). No bindings, no call.
//
// ErrServiceToken: Cyborg of 2026 and later wants X-Service-Token.
// ErrEventRefused: all are Bound all the same. ErrNoFreeHandle, ErrNotFound,
// ErrUnavailable and ErrReplyLost: Cyborg binds in order and stops at the first
// failure, so some may be Bound, one BindStarted or BindFailed, the rest
// Initial; delete them all.
func (c *Client) BindARQs(ctx context.Context, bindings []Binding) error {
	if len(bindings) == 0 {
		return nil
	}
	ids := make([]string, len(bindings))
	minor := minorBase
	body := make(patches, len(bindings))
	for i, binding := range bindings {
		ids[i] = binding.ARQ
		body[i] = binding.patch()
		if binding.Project != "" {
			minor = minorProject
		}
	}
	if err := checkBindings(ids, bindings); err != nil {
		return invalid(OpBindARQs, ids, "%w", err)
	}
	return c.do(ctx, request{
		op: OpBindARQs, ids: ids, method: http.MethodPatch, url: c.resourceURL(pathARQs),
		body: body, need: minor, like: minor,
	})
}

func checkBindings(ids []string, bindings []Binding) error {
	if err := checkUUIDs("accelerator request", ids); err != nil {
		return err
	}
	for _, binding := range bindings {
		if err := binding.check(); err != nil {
			return fmt.Errorf("accelerator request %s: %w", binding.ARQ, err)
		}
		if binding.Instance != bindings[0].Instance {
			return fmt.Errorf("accelerator requests of more than one instance: %s and %s",
				bindings[0].Instance, binding.Instance)
		}
	}
	return nil
}

func (b Binding) check() error {
	if strings.TrimSpace(b.Host) == "" {
		return errors.New("no host")
	}
	if err := checkUUID("device resource provider", b.DeviceRP); err != nil {
		return err
	}
	if b.Project != "" && !projectForm.MatchString(b.Project) {
		if err := checkUUID("project", b.Project); err != nil {
			return err
		}
	}
	return checkUUID("instance", b.Instance)
}

// patch is the binding in Cyborg's dialect, which looks like JSON Patch but is
// a list of four known fields in Nova's order.
func (b Binding) patch() patch {
	fields := []patchOp{
		{Path: "/hostname", Op: "add", Value: b.Host},
		{Path: "/device_rp_uuid", Op: "add", Value: b.DeviceRP},
		{Path: "/instance_uuid", Op: "add", Value: b.Instance},
	}
	if b.Project != "" {
		fields = append(fields, patchOp{Path: "/project_id", Op: "add", Value: b.Project})
	}
	return patch{arq: b.ARQ, ops: fields}
}

// UnbindARQs takes the devices from the accelerator requests and keeps the
// requests, which may be bound again (PATCH with op remove). Nova never does
// it. It works from any state. No UUIDs, no call. ErrServiceToken as with
// BindARQs, ErrNotFound when one does not exist: those before it are unbound.
func (c *Client) UnbindARQs(ctx context.Context, uuids []string) error {
	if len(uuids) == 0 {
		return nil
	}
	if err := checkUUIDs("accelerator request", uuids); err != nil {
		return invalid(OpUnbindARQs, uuids, "%w", err)
	}
	body := make(patches, len(uuids))
	for i, uuid := range uuids {
		body[i] = patch{arq: uuid, ops: []patchOp{
			{Path: "/hostname", Op: "remove"},
			{Path: "/device_rp_uuid", Op: "remove"},
			{Path: "/instance_uuid", Op: "remove"},
		}}
	}
	return c.do(ctx, request{
		op: OpUnbindARQs, ids: uuids, method: http.MethodPatch, url: c.resourceURL(pathARQs), body: body,
	})
}

// patchOp is one entry of an ARQ's patch.
type patchOp struct {
	Path  string `json:"path"`
	Op    string `json:"op"`
	Value string `json:"value,omitempty"`
}

// patch is what happens to one ARQ.
type patch struct {
	arq string
	ops []patchOp
}

// patches is the body of the PATCH: one object with a member per ARQ, in the
// caller's order, which is the order in which Cyborg works (a Go map would be
// sorted).
type patches []patch

// MarshalJSON implements json.Marshaler.
func (p patches) MarshalJSON() ([]byte, error) {
	var body bytes.Buffer
	body.WriteByte('{')
	for i, entry := range p {
		if i > 0 {
			body.WriteByte(',')
		}
		key, err := json.Marshal(entry.arq)
		if err != nil {
			return nil, err
		}
		ops, err := json.Marshal(entry.ops)
		if err != nil {
			return nil, err
		}
		body.Write(key)
		body.WriteByte(':')
		body.Write(ops)
	}
	body.WriteByte('}')
	return body.Bytes(), nil
}

// deleteBatch bounds the UUIDs of one DELETE: their query has to fit into the
// 8 KiB that servers commonly grant a request line.
const deleteBatch = 100

// DeleteARQs deletes accelerator requests; bound ones are unbound by Cyborg
// first. UUIDs that do not exist (any more) count as deleted, those named twice
// are sent once. No UUIDs, no call.
//
// Cyborg answers 404 and, since 2026, deletes nothing when one of several
// UUIDs is unknown (Nova relies on the rest being deleted, and leaks them). It
// likewise stops at one that the token may not delete, or whose device cannot
// be freed. In these cases each is deleted by a request of its own. What could
// not be deleted is in the *DeleteError. ErrServiceToken: one has an instance
// and Cyborg wants X-Service-Token.
func (c *Client) DeleteARQs(ctx context.Context, uuids []string) error {
	wanted := unique(uuids)
	if err := checkUUIDs("accelerator request", wanted); err != nil {
		return invalid(OpDeleteARQs, wanted, "%w", err)
	}
	var failed []ARQFailure
	for len(wanted) > 0 {
		batch := wanted[:min(deleteBatch, len(wanted))]
		wanted = wanted[len(batch):]
		failed = append(failed, c.deleteBatch(ctx, batch)...)
	}
	if len(failed) > 0 {
		return &DeleteError{Failed: failed}
	}
	return nil
}

// deleteBatch deletes with one request and, should a single one of them be in
// the way, one by one.
func (c *Client) deleteBatch(ctx context.Context, uuids []string) []ARQFailure {
	err := c.deleteARQs(ctx, uuids)
	oneByOne := len(uuids) > 1 && aboutOne(err)
	var failed []ARQFailure
	for _, uuid := range uuids {
		one := err
		if oneByOne {
			one = c.deleteARQs(ctx, []string{uuid})
		}
		if one != nil && !errors.Is(one, ErrNotFound) {
			failed = append(failed, ARQFailure{ARQ: uuid, Err: one})
		}
	}
	return failed
}

// aboutOne reports that Cyborg itself refused a list, which it does for the
// first entry that it cannot handle.
func aboutOne(err error) bool {
	var answer *APIError
	return errors.As(err, &answer) && (answer.Status == http.StatusNotFound ||
		answer.Status == http.StatusForbidden || answer.Status == http.StatusInternalServerError)
}

func (c *Client) deleteARQs(ctx context.Context, uuids []string) error {
	return c.do(ctx, request{
		op: OpDeleteARQs, ids: uuids, method: http.MethodDelete,
		url: c.queryURL(pathARQs, pairs{{"arqs", strings.Join(uuids, ",")}}), gone: len(uuids) == 1,
	})
}

// DeleteARQsForInstance deletes all accelerator requests of an instance that
// the token's project may see. An instance without any is no error.
// ErrServiceToken: Cyborg of 2026 and later wants X-Service-Token.
func (c *Client) DeleteARQsForInstance(ctx context.Context, instance string) error {
	ids := []string{instance}
	if err := checkUUID("instance", instance); err != nil {
		return invalid(OpDeleteARQs, ids, "%w", err)
	}
	return c.do(ctx, request{
		op: OpDeleteARQs, ids: ids, method: http.MethodDelete,
		url: c.queryURL(pathARQs, pairs{{"instance", instance}}), gone: true,
	})
}

// unique keeps the first of equal texts.
func unique(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	var kept []string
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			kept = append(kept, text)
		}
	}
	return kept
}
