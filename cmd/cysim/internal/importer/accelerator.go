package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// accelerator lists everything that Cyborg shows. None of its lists has pages.
func (c *cloud) accelerator(ctx context.Context) (*transfer.AcceleratorListing, error) {
	version, err := c.cyborg.GetVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the version document: %w", err)
	}
	l := &transfer.AcceleratorListing{MaxVersion: version.MaxVersion, Attributes: []transfer.ListedAttribute{}}
	c.progress("accelerator: highest microversion %s", l.MaxVersion)
	for _, step := range []struct {
		name string
		read func() (int, error)
	}{
		{"devices", func() (int, error) {
			list, err := c.cyborg.ListDevices(ctx, cyborgclient.ListDevicesOpts{})
			return len(list), convert(list, err, &l.Devices)
		}},
		{"deployables", func() (int, error) { return c.deployables(ctx, l) }},
		{"attributes", func() (int, error) {
			list, err := c.cyborg.ListAttributes(ctx, cyborgclient.ListAttributesOpts{})
			if errors.Is(err, cyborgclient.ErrNotFound) { // Zed
				c.progress("accelerator: it lists no attributes; those of the deployables are used")
				return 0, nil
			}
			return len(list), convert(list, err, &l.Attributes)
		}},
		{"device_profiles", func() (int, error) {
			list, err := c.cyborg.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{})
			return len(list), convert(list, err, &l.DeviceProfiles)
		}},
		{"accelerator_requests", func() (int, error) {
			list, err := c.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{})
			for _, arq := range list {
				for key, value := range arq.AttachHandleInfo {
					arq.AttachHandleInfo[key] = fmt.Sprint(value)
				}
			}
			return len(list), convert(list, err, &l.ARQs)
		}},
	} {
		n, err := step.read()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", step.name, err)
		}
		c.progress("accelerator: %d %s", n, step.name)
	}
	return l, nil
}

func (c *cloud) deployables(ctx context.Context, l *transfer.AcceleratorListing) (int, error) {
	list, err := c.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
	if err := convert(list, err, &l.Deployables); err != nil {
		return 0, err
	}
	for i, d := range list {
		pairs, err := d.Pairs()
		if err != nil {
			return 0, err
		}
		l.Deployables[i].Attributes = []transfer.ListedPair{}
		for _, pair := range pairs {
			l.Deployables[i].Attributes = append(l.Deployables[i].Attributes, transfer.ListedPair(pair))
		}
	}
	return len(list), nil
}

// convert stores the rows of an answer in those of a listing, whose fields have the same
// names in JSON. The error is that of the answer.
func convert(from any, err error, into any) error {
	if err != nil {
		return err
	}
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
