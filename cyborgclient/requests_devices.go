package cyborgclient

import (
	"context"
	"net/http"
	"strconv"
)

// ListDevicesOpts narrows and orders a list of devices. Empty fields do not
// count; the others must all match, byte by byte.
type ListDevicesOpts struct {
	Type     string // GPU, FPGA, AICHIP, QAT, NIC, SSD
	Vendor   string
	Hostname string
	SortKey  string // a field of the device
	SortDir  string // "asc" or "desc"
	Limit    int    // at most that many; there are no pages, so the rest cannot be asked for
}

// ListDevices lists devices (GET /devices). Their Status is asked for when the
// server has 2.3.
func (c *Client) ListDevices(ctx context.Context, opts ListDevicesOpts) ([]Device, error) {
	var query pairs
	query.add("type", opts.Type)
	query.add("vendor", opts.Vendor)
	query.add("hostname", opts.Hostname)
	query.order(opts.SortKey, opts.SortDir, opts.Limit)
	var devices []Device
	err := c.do(ctx, request{
		op: OpListDevices, method: http.MethodGet, url: c.queryURL(pathDevices, query), like: minorDeviceStatus,
		decode: func(body []byte) error { return member(body, "devices", &devices) },
	})
	if err != nil {
		return nil, err
	}
	return devices, nil
}

// order appends the filters that the server acts on for devices and
// deployables alike.
func (p *pairs) order(sortKey, sortDir string, limit int) {
	p.filter("sort_key", sortKey)
	p.filter("sort_dir", sortDir)
	if limit > 0 {
		p.filter("limit", strconv.Itoa(limit))
	}
}

// GetDevice returns one device (GET /devices/{uuid}). Its Status is asked for
// when the server has 2.3. ErrNotFound when there is none.
func (c *Client) GetDevice(ctx context.Context, uuid string) (*Device, error) {
	ids := []string{uuid}
	if err := checkUUID("device", uuid); err != nil {
		return nil, invalid(OpGetDevice, ids, "%w", err)
	}
	var device Device
	err := c.do(ctx, request{
		op: OpGetDevice, ids: ids, method: http.MethodGet, url: c.resourceURL(pathDevices, uuid), like: minorDeviceStatus,
		decode: func(body []byte) error { return bare(body, &device, &device.UUID) },
	})
	if err != nil {
		return nil, err
	}
	return &device, nil
}

// EnableDevice gives a device back to Placement after DisableDevice (POST
// /devices/{uuid}/enable; by default only an admin may). ErrNotFound when
// there is none. Releases up to 2025 have no such call and answer 404 or 405.
func (c *Client) EnableDevice(ctx context.Context, uuid string) error {
	return c.switchDevice(ctx, OpEnableDevice, uuid, "enable")
}

// DisableDevice puts a device into maintenance: its whole inventory becomes
// reserved in Placement, so that nothing new lands on it. What is bound stays
// bound, and an ARQ that already has an allocation can still be bound.
// Otherwise as EnableDevice.
func (c *Client) DisableDevice(ctx context.Context, uuid string) error {
	return c.switchDevice(ctx, OpDisableDevice, uuid, "disable")
}

func (c *Client) switchDevice(ctx context.Context, op, uuid, action string) error {
	ids := []string{uuid}
	if err := checkUUID("device", uuid); err != nil {
		return invalid(op, ids, "%w", err)
	}
	return c.do(ctx, request{
		op: op, ids: ids, method: http.MethodPost, url: c.resourceURL(pathDevices, uuid, action), body: struct{}{},
	})
}

// ListDeployablesOpts narrows and orders a list of deployables.
type ListDeployablesOpts struct {
	Name    string // of the deployable and its resource provider, exactly
	SortKey string // a field of the deployable
	SortDir string // "asc" or "desc"
	Limit   int    // at most that many
}

// ListDeployables lists deployables (GET /deployables).
func (c *Client) ListDeployables(ctx context.Context, opts ListDeployablesOpts) ([]Deployable, error) {
	var query pairs
	query.filter("name", opts.Name)
	query.order(opts.SortKey, opts.SortDir, opts.Limit)
	var deployables []Deployable
	err := c.do(ctx, request{
		op: OpListDeployables, method: http.MethodGet, url: c.queryURL(pathDeployables, query),
		decode: func(body []byte) error { return member(body, "deployables", &deployables) },
	})
	if err != nil {
		return nil, err
	}
	return deployables, nil
}

// GetDeployable returns one deployable (GET /deployables/{uuid}). ErrNotFound
// when there is none.
func (c *Client) GetDeployable(ctx context.Context, uuid string) (*Deployable, error) {
	ids := []string{uuid}
	if err := checkUUID("deployable", uuid); err != nil {
		return nil, invalid(OpGetDeployable, ids, "%w", err)
	}
	return c.deployable(ctx, request{
		op: OpGetDeployable, ids: ids, method: http.MethodGet, url: c.resourceURL(pathDeployables, uuid),
	})
}

// ProgramDeployable loads an image of the image service into an FPGA and waits
// until it is done (PATCH /deployables/{uuid}/program; by default only an admin
// may). The deployable comes back as it was: Cyborg records neither bitstream
// nor traits here. ErrNotFound when there is none; ErrUnavailable and
// ErrReplyLost when the agent failed or did not answer.
func (c *Client) ProgramDeployable(ctx context.Context, uuid, image string) (*Deployable, error) {
	ids := []string{uuid, image}
	if err := checkUUID("deployable", uuid); err != nil {
		return nil, invalid(OpProgramDeployable, ids, "%w", err)
	}
	if err := checkUUID("image", image); err != nil {
		return nil, invalid(OpProgramDeployable, ids, "%w", err)
	}
	return c.deployable(ctx, request{
		op: OpProgramDeployable, ids: ids, method: http.MethodPatch, url: c.resourceURL(pathDeployables, uuid, "program"),
		body: []programOp{{Path: "/program", Op: "replace", Value: []programImage{{ImageUUID: image}}}},
	})
}

// programOp is the only entry of a program request.
type programOp struct {
	Path  string         `json:"path"`
	Op    string         `json:"op"`
	Value []programImage `json:"value"`
}

type programImage struct {
	ImageUUID string `json:"image_uuid"`
}

func (c *Client) deployable(ctx context.Context, r request) (*Deployable, error) {
	var deployable Deployable
	r.decode = func(body []byte) error { return bare(body, &deployable, &deployable.UUID) }
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	return &deployable, nil
}

// ListAttributesOpts narrows a list of attributes.
type ListAttributesOpts struct {
	DeployableID int    // primary key of a deployable; 0 = any
	Key          string // exactly
}

// ListAttributes lists attributes (GET /attributes).
func (c *Client) ListAttributes(ctx context.Context, opts ListAttributesOpts) ([]Attribute, error) {
	var query pairs
	if opts.DeployableID != 0 {
		query.add("deployable_id", strconv.Itoa(opts.DeployableID))
	}
	query.add("key", opts.Key)
	var attributes []Attribute
	err := c.do(ctx, request{
		op: OpListAttributes, method: http.MethodGet, url: c.queryURL(pathAttributes, query),
		decode: func(body []byte) error { return member(body, "attributes", &attributes) },
	})
	if err != nil {
		return nil, err
	}
	return attributes, nil
}

// GetAttribute returns one attribute (GET /attributes/{uuid}). ErrNotFound when
// there is none.
func (c *Client) GetAttribute(ctx context.Context, uuid string) (*Attribute, error) {
	ids := []string{uuid}
	if err := checkUUID("attribute", uuid); err != nil {
		return nil, invalid(OpGetAttribute, ids, "%w", err)
	}
	return c.attribute(ctx, request{
		op: OpGetAttribute, ids: ids, method: http.MethodGet, url: c.resourceURL(pathAttributes, uuid),
	})
}

// CreateAttributeOpts describes a new attribute; all fields are needed.
type CreateAttributeOpts struct {
	DeployableID int    `json:"deployable_id"` // primary key of a deployable
	Key          string `json:"key"`
	Value        string `json:"value"`
}

// CreateAttribute gives a deployable an attribute (POST /attributes; by default
// only an admin may). Cyborg tells Placement nothing of it, and removes it at
// the host's next report, within a minute, since no driver reported it. A key
// may exist more than once.
func (c *Client) CreateAttribute(ctx context.Context, opts CreateAttributeOpts) (*Attribute, error) {
	ids := []string{strconv.Itoa(opts.DeployableID), opts.Key}
	if opts.DeployableID <= 0 || opts.Key == "" || opts.Value == "" {
		return nil, invalid(OpCreateAttribute, ids, "deployable id, key and value are needed")
	}
	return c.attribute(ctx, request{
		op: OpCreateAttribute, ids: ids, method: http.MethodPost, url: c.resourceURL(pathAttributes), body: opts,
	})
}

// DeleteAttribute deletes one attribute (DELETE /attributes/{uuid}; by default
// only an admin may). ErrNotFound when there is none.
func (c *Client) DeleteAttribute(ctx context.Context, uuid string) error {
	ids := []string{uuid}
	if err := checkUUID("attribute", uuid); err != nil {
		return invalid(OpDeleteAttribute, ids, "%w", err)
	}
	return c.do(ctx, request{
		op: OpDeleteAttribute, ids: ids, method: http.MethodDelete, url: c.resourceURL(pathAttributes, uuid), gone: true,
	})
}

func (c *Client) attribute(ctx context.Context, r request) (*Attribute, error) {
	var attribute Attribute
	r.decode = func(body []byte) error { return bare(body, &attribute, &attribute.UUID) }
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	return &attribute, nil
}
