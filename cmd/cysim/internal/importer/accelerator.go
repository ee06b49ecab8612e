package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// accelerator lists everything that Cyborg shows.
func (c *cloud) accelerator(ctx context.Context) (*transfer.AcceleratorListing, error) {
	version, err := c.cyborg.GetVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the version document: %w", err)
	}
	c.progress("accelerator: highest microversion %s", version.MaxVersion)
	l := &transfer.AcceleratorListing{MaxVersion: version.MaxVersion, Attributes: []transfer.ListedAttribute{}}
	if _, err := list(ctx, c, "devices", c.cyborg.ListDevices, &l.Devices); err != nil {
		return nil, err
	}
	deployables, err := list(ctx, c, "deployables", c.cyborg.ListDeployables, &l.Deployables)
	if err != nil {
		return nil, err
	}
	for i, d := range deployables {
		attributes, err := d.Attributes()
		if err != nil {
			return nil, err
		}
		for _, a := range attributes {
			l.Deployables[i].Attributes = append(l.Deployables[i].Attributes, transfer.ListedPair{Key: a.Key, Value: a.Value})
		}
	}
	_, err = list(ctx, c, "attributes", c.cyborg.ListAttributes, &l.Attributes)
	if errors.Is(err, cyborgclient.ErrNotFound) {
		c.progress("accelerator: it lists no attributes; those of the deployables are used") // Zed
	} else if err != nil {
		return nil, err
	}
	if _, err := list(ctx, c, "device_profiles", c.cyborg.ListDeviceProfiles, &l.DeviceProfiles); err != nil {
		return nil, err
	}
	_, err = list(ctx, c, "accelerator_requests", c.arqs, &l.ARQs)
	return l, err
}

// arqs lists the accelerator requests with texts only.
func (c *cloud) arqs(ctx context.Context, opts cyborgclient.ListARQsOpts) ([]cyborgclient.ARQ, error) {
	arqs, err := c.cyborg.ListARQs(ctx, opts)
	for _, arq := range arqs {
		for key, value := range arq.AttachHandleInfo {
			arq.AttachHandleInfo[key] = fmt.Sprint(value)
		}
	}
	return arqs, err
}

// list reads one list, none of which has pages, into rows of a listing, whose fields have
// the same names in JSON.
func list[Opts, Row any](ctx context.Context, c *cloud, name string, read func(context.Context, Opts) ([]Row, error), into any) ([]Row, error) {
	var all Opts
	rows, err := read(ctx, all)
	var data []byte
	if err == nil {
		data, err = json.Marshal(rows)
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	c.progress("accelerator: %d %s", len(rows), name)
	return rows, nil
}
