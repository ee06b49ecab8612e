package cyborgclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// ListDevicesOpts filters and sorts a list of devices. Empty fields are ignored;
// all others must match exactly.
type ListDevicesOpts struct {
	Type     string // GPU, FPGA, AICHIP, QAT, NIC, SSD, MDEV, PCI, NVME
	Vendor   string
	Hostname string
	SortKey  string // a field of the device
	SortDir  string // "asc" or "desc"
	Limit    int    // maximum number; there are no pages, so the rest cannot be listed
}

// ListDevices lists devices (GET /devices). Their Status is requested when the
// server supports 2.3.
func (c *Client) ListDevices(ctx context.Context, opts ListDevicesOpts) ([]Device, error) {
	var query pairs
	query.add("type", opts.Type)
	query.add("vendor", opts.Vendor)
	query.add("hostname", opts.Hostname)
	query.order(opts.SortKey, opts.SortDir, opts.Limit)
	return call(ctx, c, request{
		op: "accelerator.device.list", url: c.queryURL(pathDevices, query), prefer: minorDeviceStatus,
	}, func(body []byte) ([]Device, error) {
		var answer struct {
			List *[]Device `json:"devices"`
		}
		err := json.Unmarshal(body, &answer)
		return required("devices", answer.List, err)
	})
}

// order appends the filters that devices and deployables have in common.
func (p *pairs) order(sortKey, sortDir string, limit int) {
	p.filter("sort_key", sortKey)
	p.filter("sort_dir", sortDir)
	if limit > 0 {
		p.filter("limit", strconv.Itoa(limit))
	}
}

// GetDevice returns one device (GET /devices/{uuid}), or ErrNotFound. Its Status
// is requested when the server supports 2.3.
func (c *Client) GetDevice(ctx context.Context, uuid string) (*Device, error) {
	return call(ctx, c, request{
		op: "accelerator.device.get", ids: []string{uuid}, invalid: checkUUID("device", uuid),
		url: c.resourceURL(pathDevices, uuid), prefer: minorDeviceStatus,
	}, decodeObject[Device])
}

// EnableDevice ends the maintenance that DisableDevice began (POST
// /devices/{uuid}/enable; by default for admins only). It returns ErrNotFound
// when the device does not exist. Releases up to 2025 have no such call and
// answer 404 or 405.
func (c *Client) EnableDevice(ctx context.Context, uuid string) error {
	return c.switchDevice(ctx, uuid, "enable")
}

// DisableDevice puts a device into maintenance: its whole inventory becomes
// reserved in Placement, so it gets no new allocations. Bound ARQs stay bound,
// and an ARQ that already has an allocation can still be bound. Otherwise it is
// like EnableDevice.
func (c *Client) DisableDevice(ctx context.Context, uuid string) error {
	return c.switchDevice(ctx, uuid, "disable")
}

func (c *Client) switchDevice(ctx context.Context, uuid, action string) error {
	return c.do(ctx, request{
		op: "accelerator.device." + action, ids: []string{uuid}, invalid: checkUUID("device", uuid),
		method: http.MethodPost, url: c.resourceURL(pathDevices, uuid, action), body: struct{}{},
	})
}

// ListDeployablesOpts filters and sorts a list of deployables.
type ListDeployablesOpts struct {
	Name    string // of the deployable and its resource provider, exactly
	SortKey string // a field of the deployable
	SortDir string // "asc" or "desc"
	Limit   int    // maximum number
}

// ListDeployables lists deployables (GET /deployables).
func (c *Client) ListDeployables(ctx context.Context, opts ListDeployablesOpts) ([]Deployable, error) {
	var query pairs
	query.filter("name", opts.Name)
	query.order(opts.SortKey, opts.SortDir, opts.Limit)
	return call(ctx, c, request{
		op: "accelerator.deployable.list", url: c.queryURL(pathDeployables, query),
	}, func(body []byte) ([]Deployable, error) {
		var answer struct {
			List *[]Deployable `json:"deployables"`
		}
		err := json.Unmarshal(body, &answer)
		return required("deployables", answer.List, err)
	})
}

// GetDeployable returns one deployable (GET /deployables/{uuid}), or ErrNotFound.
func (c *Client) GetDeployable(ctx context.Context, uuid string) (*Deployable, error) {
	return call(ctx, c, request{
		op: "accelerator.deployable.get", ids: []string{uuid}, invalid: checkUUID("deployable", uuid),
		url: c.resourceURL(pathDeployables, uuid),
	}, decodeObject[Deployable])
}

// ProgramDeployable loads an image of the image service into an FPGA and waits
// until that is done (PATCH /deployables/{uuid}/program; by default for admins
// only). The returned deployable is unchanged: Cyborg records neither bitstream
// nor traits here. It returns ErrNotFound when the deployable does not exist,
// ErrUnavailable and ErrReplyLost when the agent failed or did not answer.
func (c *Client) ProgramDeployable(ctx context.Context, uuid, image string) (*Deployable, error) {
	type programImage struct {
		ImageUUID string `json:"image_uuid"`
	}
	type programOp struct {
		Path  string         `json:"path"`
		Op    string         `json:"op"`
		Value []programImage `json:"value"`
	}
	return call(ctx, c, request{
		op: "accelerator.deployable.program", ids: []string{uuid, image},
		invalid: cmp.Or(checkUUID("deployable", uuid), checkUUID("image", image)),
		method:  http.MethodPatch, url: c.resourceURL(pathDeployables, uuid, "program"),
		body: []programOp{{Path: "/program", Op: "replace", Value: []programImage{{ImageUUID: image}}}},
	}, decodeObject[Deployable])
}

// ListAttributesOpts filters a list of attributes.
type ListAttributesOpts struct {
	DeployableID int    // primary key of a deployable; 0: any
	Key          string // exactly
}

// ListAttributes lists attributes (GET /attributes).
func (c *Client) ListAttributes(ctx context.Context, opts ListAttributesOpts) ([]Attribute, error) {
	var query pairs
	if opts.DeployableID != 0 {
		query.add("deployable_id", strconv.Itoa(opts.DeployableID))
	}
	query.add("key", opts.Key)
	return call(ctx, c, request{
		op: "accelerator.attribute.list", url: c.queryURL(pathAttributes, query),
	}, func(body []byte) ([]Attribute, error) {
		var answer struct {
			List *[]Attribute `json:"attributes"`
		}
		err := json.Unmarshal(body, &answer)
		return required("attributes", answer.List, err)
	})
}

// GetAttribute returns one attribute (GET /attributes/{uuid}), or ErrNotFound.
func (c *Client) GetAttribute(ctx context.Context, uuid string) (*Attribute, error) {
	return call(ctx, c, request{
		op: "accelerator.attribute.get", ids: []string{uuid}, invalid: checkUUID("attribute", uuid),
		url: c.resourceURL(pathAttributes, uuid),
	}, decodeObject[Attribute])
}

// CreateAttributeOpts describes a new attribute; all fields are required.
type CreateAttributeOpts struct {
	DeployableID int    `json:"deployable_id"` // primary key of a deployable
	Key          string `json:"key"`
	Value        string `json:"value"`
}

// CreateAttribute adds an attribute to a deployable (POST /attributes; by default
// for admins only). Cyborg does not report it to Placement, and removes it with
// the host's next report, within a minute, since no driver reported it. A key
// may exist more than once.
func (c *Client) CreateAttribute(ctx context.Context, opts CreateAttributeOpts) (*Attribute, error) {
	var invalid error
	if opts.DeployableID <= 0 || opts.Key == "" || opts.Value == "" {
		invalid = errors.New("deployable id, key and value are required")
	}
	return call(ctx, c, request{
		op: "accelerator.attribute.create", ids: []string{strconv.Itoa(opts.DeployableID), opts.Key}, invalid: invalid,
		method: http.MethodPost, url: c.resourceURL(pathAttributes), body: opts,
	}, decodeObject[Attribute])
}

// DeleteAttribute deletes one attribute (DELETE /attributes/{uuid}; by default
// for admins only). It returns ErrNotFound when the attribute does not exist.
func (c *Client) DeleteAttribute(ctx context.Context, uuid string) error {
	return c.do(ctx, request{
		op: "accelerator.attribute.delete", ids: []string{uuid}, invalid: checkUUID("attribute", uuid),
		method: http.MethodDelete, url: c.resourceURL(pathAttributes, uuid), gone: true,
	})
}
