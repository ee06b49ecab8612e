package cyborgclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// CreateARQsOpts describes the accelerator requests to make.
type CreateARQsOpts struct {
	DeviceProfileName string `json:"device_profile_name"`
	// ImageUUID is the image of an FPGA. openstackclient sends it, Cyborg ignores it.
	ImageUUID string `json:"image_uuid,omitempty"`
}

// CreateARQs makes the accelerator requests of a device profile (POST
// /accelerator_requests): one per unit of each group's resources, in group
// order, doubled for a Xilinx FPGA (cyborg/objects/ext_arq.py). They are in
// state Initial and unbound. The list may be empty.
//
// The call is never retried. ErrReplyLost: ARQs may exist whose UUIDs are not
// known; ListARQs finds them. ErrNotFound: no such profile.
func (c *Client) CreateARQs(ctx context.Context, opts CreateARQsOpts) ([]ARQ, error) {
	invalid := checkProfileNames(opts.DeviceProfileName)
	if invalid == nil && opts.ImageUUID != "" {
		invalid = checkUUID("image", opts.ImageUUID)
	}
	return call(ctx, c, request{
		op: "accelerator.arq.create", ids: []string{opts.DeviceProfileName}, invalid: invalid,
		method: http.MethodPost, url: c.resourceURL(pathARQs), body: opts,
	}, decodeARQs)
}

// ListARQsOpts filters a list of accelerator requests.
type ListARQsOpts struct {
	// Instance selects the ARQs of one instance (a UUID).
	Instance string
	// Resolved requests only resolved ones (bind_state=resolved: Bound,
	// BindFailed, Deleting). Together with Instance the answer has all of the
	// instance's, or is ErrNotResolved. Nova lists by instance instead and uses
	// State.Resolved.
	Resolved bool
}

// ListARQs lists the accelerator requests of the token's project, or all of
// them for an admin, oldest first (GET /accelerator_requests). An answer with an ARQ of another
// instance, or of no instance, matches [ErrMalformed]: a caller that deletes the listed ARQs
// would delete that one too.
func (c *Client) ListARQs(ctx context.Context, opts ListARQsOpts) ([]ARQ, error) {
	r := request{op: "accelerator.arq.list"}
	var query pairs
	if opts.Instance != "" {
		r.ids, r.invalid = []string{opts.Instance}, checkUUID("instance", opts.Instance)
	}
	query.add("instance", opts.Instance)
	if opts.Resolved {
		query.add("bind_state", "resolved")
	}
	r.url = c.queryURL(pathARQs, query)
	return call(ctx, c, r, func(body []byte) ([]ARQ, error) {
		arqs, err := decodeARQs(body)
		if err != nil {
			return nil, err
		}
		if err := checkInstance(arqs, opts.Instance); err != nil {
			return nil, err
		}
		return arqs, nil
	})
}

func checkInstance(arqs []ARQ, instance string) error {
	for _, arq := range arqs {
		if instance != "" && !strings.EqualFold(arq.InstanceUUID, instance) {
			return fmt.Errorf("accelerator request %s of the answer is of instance %q, not %s", arq.UUID, arq.InstanceUUID, instance)
		}
	}
	return nil
}

// decodeARQs reads {"arqs": [...]}. An ARQ without a UUID could never be
// deleted, so such a response is malformed.
func decodeARQs(body []byte) ([]ARQ, error) {
	var answer struct {
		ARQs *[]wireARQ `json:"arqs"`
	}
	err := json.Unmarshal(body, &answer)
	list, err := required("arqs", answer.ARQs, err)
	if err != nil {
		return nil, err
	}
	arqs := make([]ARQ, len(list))
	for i := range list {
		if arqs[i] = list[i].arq(); arqs[i].UUID == "" {
			return nil, fmt.Errorf("accelerator request %d of the answer has no uuid", i)
		}
	}
	return arqs, nil
}

// GetARQ returns one accelerator request (GET /accelerator_requests/{uuid}), or
// ErrNotFound when it does not exist or belongs to another project; see [IsMissing]. Cyborg
// 9.0 to 16.0.0 lets only administrators read one (403): for others GetARQ searches the list of
// all, which is a second call.
func (c *Client) GetARQ(ctx context.Context, uuid string) (*ARQ, error) {
	r := request{
		op: "accelerator.arq.get", ids: []string{uuid}, invalid: checkUUID("accelerator request", uuid),
		url: c.resourceURL(pathARQs, uuid),
	}
	arq, err := call(ctx, c, r, decodeObject[ARQ])
	if !errors.Is(err, ErrForbidden) {
		return arq, err
	}
	arqs, err := c.ListARQs(ctx, ListARQsOpts{})
	return find(r, arqs, err, func(arq ARQ) bool { return arq.UUID == uuid })
}

// Binding assigns a device to an accelerator request of an instance.
type Binding struct {
	ARQ      string // UUID of the accelerator request
	Host     string // compute node name (hypervisor_hostname), not the service host
	DeviceRP string // UUID of the device's resource provider in Placement
	Instance string // UUID of the instance
	// From 2.1: Project becomes the owner of the ARQ; only an admin may set it.
	// Empty: the caller's project.
	Project string
}

// BindARQs binds all accelerator requests of one instance with one PATCH. A
// second PATCH would fail: Cyborg refuses (ErrConflict) an instance that already
// has ARQs. Nil means accepted, and with most drivers already bound; the state
// of each ARQ shows the outcome. Without bindings it does nothing.
//
// ErrInvalid, before sending: an empty field, a malformed UUID, an ARQ given
// twice, more than one instance (Cyborg would name the first instance in every
// event).
//
// ErrServiceToken: Cyborg of 2026 and later requires X-Service-Token.
// ErrEventRefused: all are Bound nevertheless. ErrNoFreeHandle, ErrRegionRefused, ErrNotFound,
// ErrUnavailable, ErrReplyLost, and ErrConflict about one ARQ that is in the wrong state: Cyborg binds in order and stops at the first
// failure, so some may be Bound, one BindStarted or BindFailed, the rest
// Initial; delete them all.
func (c *Client) BindARQs(ctx context.Context, bindings []Binding) error {
	return c.bindARQs(ctx, bindings, nil)
}

// BindAdditionalARQs is BindARQs for an instance that has ARQs already. Cyborg looks for
// them only if the first change of a PATCH is a bind; this one begins with the unbinding of
// spare, an Initial or Unbound ARQ, which becomes Unbound. Nova never does this: an instance
// that is evacuated keeps an ARQ whose mediated device Cyborg cannot remove while the agent
// of the old host is down. A Cyborg that checks every bind refuses (ErrConflict).
func (c *Client) BindAdditionalARQs(ctx context.Context, bindings []Binding, spare string) error {
	return c.bindARQs(ctx, bindings, patches{unbinding(spare)})
}

// bindARQs sends the bindings after the changes in body.
func (c *Client) bindARQs(ctx context.Context, bindings []Binding, body patches) error {
	if len(bindings) == 0 {
		return nil
	}
	ids := make([]string, 0, len(body)+len(bindings))
	for _, first := range body {
		ids = append(ids, first.arq)
	}
	minor := minorBase
	for _, binding := range bindings {
		ids = append(ids, binding.ARQ)
		body = append(body, binding.patch())
		if binding.Project != "" {
			minor = minorProject
		}
	}
	return c.do(ctx, request{
		op: "accelerator.arq.bind", ids: ids, invalid: checkBindings(ids, bindings),
		method: http.MethodPatch, url: c.resourceURL(pathARQs), body: body, need: minor,
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

// patch returns the binding in Cyborg's dialect, which looks like JSON Patch but
// is a list of four known fields, here in Nova's order.
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

// UnbindARQs releases the devices of accelerator requests and keeps the
// requests, which may be bound again (PATCH with op remove). Nova never does
// this. It works from any state. Without UUIDs it does nothing. ErrServiceToken
// as with BindARQs; ErrNotFound when one does not exist: those before it are
// unbound.
func (c *Client) UnbindARQs(ctx context.Context, uuids []string) error {
	if len(uuids) == 0 {
		return nil
	}
	body := make(patches, len(uuids))
	for i, uuid := range uuids {
		body[i] = unbinding(uuid)
	}
	return c.do(ctx, request{
		op: "accelerator.arq.unbind", ids: uuids, invalid: checkUUIDs("accelerator request", uuids),
		method: http.MethodPatch, url: c.resourceURL(pathARQs), body: body,
	})
}

func unbinding(arq string) patch {
	return patch{arq: arq, ops: []patchOp{
		{Path: "/hostname", Op: "remove"},
		{Path: "/device_rp_uuid", Op: "remove"},
		{Path: "/instance_uuid", Op: "remove"},
	}}
}

// patchOp is one entry of an ARQ's patch.
type patchOp struct {
	Path  string `json:"path"`
	Op    string `json:"op"`
	Value string `json:"value,omitempty"`
}

// patch lists the changes of one ARQ.
type patch struct {
	arq string
	ops []patchOp
}

// patches is the body of the PATCH: an object with a member per ARQ. Cyborg
// works in the order of the members, so it is the caller's; a Go map would be
// sorted.
type patches []patch

// MarshalJSON implements json.Marshaler.
func (p patches) MarshalJSON() ([]byte, error) {
	var body bytes.Buffer
	body.WriteByte('{')
	for i, entry := range p {
		if i > 0 {
			body.WriteByte(',')
		}
		ops, err := json.Marshal(entry.ops)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&body, "%q:%s", entry.arq, ops) // a UUID needs no other escapes
	}
	body.WriteByte('}')
	return body.Bytes(), nil
}

// deleteBatch bounds the UUIDs of one DELETE, whose query has to fit into the
// usual limit of 8 KiB for a request line.
const deleteBatch = 100

// DeleteARQs deletes accelerator requests; Cyborg unbinds them first. UUIDs that Cyborg itself
// does not know are treated as deleted; the 404 of a proxy is not trusted. Without the role admin
// this includes ARQs of other projects, which Cyborg hides. Duplicates are ignored. Without UUIDs
// it does nothing.
//
// When one of several UUIDs is unknown, Cyborg answers 404 and, since 2026,
// deletes nothing (Nova relies on the rest being deleted, and leaks them). It
// also stops at one that the token may not delete, or whose device cannot be
// freed. In these cases DeleteARQs sends a request for each ARQ. The *DeleteError lists the ARQs
// that were not deleted. ErrServiceToken: one has an instance and Cyborg requires
// X-Service-Token.
func (c *Client) DeleteARQs(ctx context.Context, uuids []string) error {
	wanted := unique(uuids)
	if err := checkUUIDs("accelerator request", wanted); err != nil {
		return request{op: "accelerator.arq.delete", ids: wanted}.failed(ErrInvalid, err)
	}
	failed := map[string]error{}
	for batch := range slices.Chunk(wanted, deleteBatch) {
		err := c.deleteARQs(ctx, batch)
		oneByOne := len(batch) > 1 && causedByOne(err)
		for _, uuid := range batch {
			if oneByOne {
				err = c.deleteARQs(ctx, []string{uuid})
			}
			if err != nil && !IsMissing(err) {
				failed[uuid] = err
			}
		}
	}
	if len(failed) > 0 {
		return &DeleteError{Failed: failed}
	}
	return nil
}

// causedByOne reports whether Cyborg refused a list because of the first entry that it could not handle.
func causedByOne(err error) bool {
	var answer *APIError
	return errors.As(err, &answer) && (answer.Status == http.StatusNotFound ||
		answer.Status == http.StatusForbidden || answer.Status == http.StatusInternalServerError)
}

func (c *Client) deleteARQs(ctx context.Context, uuids []string) error {
	return c.do(ctx, request{
		op: "accelerator.arq.delete", ids: uuids, method: http.MethodDelete,
		url: c.queryURL(pathARQs, pairs{{"arqs", strings.Join(uuids, ",")}}), gone: len(uuids) == 1,
	})
}

// DeleteARQsForInstance deletes all accelerator requests of an instance that are
// visible to the token's project. An instance without ARQs is not an error.
// ErrServiceToken: Cyborg of 2026 and later requires X-Service-Token.
func (c *Client) DeleteARQsForInstance(ctx context.Context, instance string) error {
	return c.do(ctx, request{
		op: "accelerator.arq.delete", ids: []string{instance}, invalid: checkUUID("instance", instance), method: http.MethodDelete,
		url: c.queryURL(pathARQs, pairs{{"instance", instance}}), gone: true,
	})
}

// unique returns the texts without duplicates, in order.
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
