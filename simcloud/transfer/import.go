package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Import makes a cloud from the listing of a real one. Its Placement holds exactly the listed
// data, including generations. Its Cyborg has the devices, deployables, attributes, device
// profiles and accelerator requests with their uuids and numbers, and the requests that are Bound
// hold their attach handles. The agents report the devices as they are listed, so that a report
// changes nothing. There are no guests. The users come from [simcloud.DefaultModel].
//
// What no API shows is marked as unknown: the device of a deployable, if its host has devices
// without deployables; control paths, unless the names of deployables contain addresses; and all attach
// handles except those that bound requests use, up to the number of accelerators of each deployable, twice
// that for a card of Xilinx. An unknown address is in PCI domain ffff or above.
//
// The error matches [ErrListing] for a listing that no cloud can be made of, and else is
// that of [simcloud.FromState].
func Import(ctx context.Context, l Listing, opts ...simcloud.Option) (*simcloud.Cloud, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	state, err := l.state(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w; if the cloud changed while it was read, read it again", ErrListing, err)
	}
	return simcloud.FromState(ctx, state, opts...)
}

// stopped is a clock that does not move and is not part of a state.
type stopped struct{ *sim.ManualClock }

// state is the state of the cloud after a report of its agents: they make the mediated
// devices of bound requests, and remember what they have reported.
func (l Listing) state(ctx context.Context) ([]byte, error) {
	before, err := l.unreported()
	if err != nil {
		return nil, err
	}
	clock := stopped{sim.NewManualClock(l.answers.ReadAt)} // so that two imports are the same
	cloud, err := simcloud.FromState(ctx, before, simcloud.WithClock(clock))
	if err != nil {
		return nil, err
	}
	_ = cloud.Cyborg.Report(ctx) // what an agent cannot report is in Cloud.Findings
	after, err := cloud.Dump()
	return after, errors.Join(err, cloud.Close())
}

// unreported is the state of a cloud of the listing.
func (l Listing) unreported() ([]byte, error) {
	o, err := l.original()
	if err != nil {
		return nil, err
	}
	if err := o.join(); err != nil {
		return nil, err
	}
	m := o.model()
	if err := m.Validate(); err != nil {
		return nil, err
	}
	model, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	w := &writer{original: o, last: make(map[string]int)}
	w.placement()
	w.accelerator()
	w.cloud(m)
	var out bytes.Buffer
	err = tables.WriteDocument(&out, model, func(yield func(sim.Record, error) bool) {
		for _, r := range w.records {
			if !yield(r, w.err) {
				return
			}
		}
	})
	return out.Bytes(), err
}

// model describes the cloud, as near as a model can.
func (o *original) model() simcloud.Model {
	m := simcloud.Model{
		Seed: o.seed, Region: o.Region, Hosts: []simcloud.Host{}, DeviceProfiles: []simcloud.DeviceProfile{},
		Cyborg: fakecyborg.Config{PlacementMode: o.mode},
	}
	roots, devices := make(map[string]*provider), make(map[string][]driver.Device)
	for _, p := range o.Placement.Providers {
		if p.Parent == "" {
			roots[p.Name] = p
		}
	}
	for _, d := range o.Cyborg.Devices {
		devices[d.Hostname] = append(devices[d.Hostname], d.reported)
	}
	for _, name := range o.hosts() {
		h := simcloud.Host{Name: name, Traits: []string{}, Devices: devices[name]}
		if root := roots[name]; root != nil {
			h.ProviderUUID, h.Traits = root.UUID, append(h.Traits, root.Traits...)
			h.VCPUs, h.MemoryMB, h.DiskGB = root.Inventories["VCPU"].Total, root.Inventories["MEMORY_MB"].Total, root.Inventories["DISK_GB"].Total
		}
		m.Hosts = append(m.Hosts, h)
	}
	if o.Cyborg.Devices == nil {
		m.Flavors = []simcloud.Flavor{}
	}
	if o.zed {
		m.Cyborg.Release = fakecyborg.ReleaseZed
	}
	for _, p := range o.Cyborg.Profiles {
		profile := simcloud.DeviceProfile{Name: p.Name, Groups: p.Groups}
		if p.Description != nil {
			profile.Description = *p.Description
		}
		m.DeviceProfiles = append(m.DeviceProfiles, profile)
	}
	return m
}
