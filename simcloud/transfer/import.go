package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Import makes a cloud of what a real one lists. Its Placement holds exactly what is listed,
// generations included. Its Cyborg has the devices, deployables, attributes, device profiles
// and accelerator requests with their uuids and numbers, and the requests that are Bound hold
// their attach handles. The agents report the devices as they are listed, so that a report
// changes nothing. There are no guests, and the users are those of [simcloud.DefaultModel].
//
// What no API shows is marked as unknown: the device of a deployable, if its host has devices
// without deployables; control paths, as far as the names of deployables do not tell
// addresses; and all attach handles but those of bound requests, up to the number of
// accelerators of each deployable. An unknown address is in PCI domain ffff or above.
//
// The error matches [ErrListing] for a listing that no cloud can be made of, and else is
// that of [simcloud.FromState].
func Import(ctx context.Context, l Listing, opts ...simcloud.Option) (*simcloud.Cloud, error) {
	state, err := stateOf(ctx, l)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, ErrListing):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w; if the cloud changed while it was read, read it again", ErrListing, err)
	}
	return simcloud.FromState(ctx, state, opts...)
}

// stateOf is the state of a cloud of the listing.
func stateOf(ctx context.Context, l Listing) ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	data, err := l.JSON()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	w, err := join(l, binary.BigEndian.Uint64(sum[:8])>>11) // 53 bits, which every reader of JSON has right
	if err != nil {
		return nil, err
	}
	m := w.model()
	if err := m.Validate(); err != nil {
		return nil, err
	}
	bare := m // its devices have nothing that Placement could refuse
	bare.DeviceProfiles, bare.Hosts = []simcloud.DeviceProfile{}, slices.Clone(m.Hosts)
	for i, h := range m.Hosts {
		bare.Hosts[i].Devices = slices.Clone(h.Devices)
		for j := range h.Devices {
			bare.Hosts[i].Devices[j].Deployables, bare.Hosts[i].Devices[j].Resources = nil, nil
		}
	}
	clock := simcloud.WithClock(sim.NewManualClock(l.ReadAt)) // so that two imports are the same
	state, err := dump(simcloud.New(ctx, bare, clock))
	if err != nil {
		return nil, err
	}
	if state, err = w.put(state, m); err != nil {
		return nil, err
	}
	// A report makes the mediated devices of bound requests, and the agents remember what
	// they have reported. Rows that it changes are put back.
	cloud, err := simcloud.FromState(ctx, state, clock)
	if err != nil {
		return nil, err
	}
	_ = cloud.Cyborg.Report(ctx) // what an agent cannot report is in Cloud.Findings
	if state, err = dump(cloud, nil); err != nil {
		return nil, err
	}
	return w.put(state, m)
}

// dump is the state of a cloud, which it closes.
func dump(cloud *simcloud.Cloud, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	state, err := cloud.Dump()
	return state, errors.Join(err, cloud.Close())
}

// model describes the cloud, as near as a model can.
func (w *imported) model() simcloud.Model {
	m := simcloud.Model{
		Seed: w.seed, Region: w.Region, Hosts: []simcloud.Host{}, DeviceProfiles: []simcloud.DeviceProfile{},
		Cyborg: fakecyborg.Config{PlacementMode: w.mode},
	}
	roots, devices := make(map[string]ListedProvider), make(map[string][]driver.Device)
	for _, p := range w.Placement.ResourceProviders {
		if p.Parent == "" {
			roots[p.Name] = p
		}
	}
	for _, d := range w.devices {
		devices[d.Hostname] = append(devices[d.Hostname], d.reported)
	}
	for _, name := range w.hosts() {
		root := roots[name]
		m.Hosts = append(m.Hosts, simcloud.Host{
			Name: name, ProviderUUID: root.UUID, Traits: append([]string{}, root.Traits...), Devices: devices[name],
			VCPUs: root.Inventories["VCPU"].Total, MemoryMB: root.Inventories["MEMORY_MB"].Total, DiskGB: root.Inventories["DISK_GB"].Total,
		})
	}
	if w.Accelerator == nil {
		m.Flavors = []simcloud.Flavor{}
		return m
	}
	if slices.Contains([]string{"2.0", "2.1", "2.2"}, w.Accelerator.MaxVersion) {
		m.Cyborg.Release = fakecyborg.ReleaseZed
	}
	for _, p := range w.Accelerator.DeviceProfiles {
		m.DeviceProfiles = append(m.DeviceProfiles, simcloud.DeviceProfile{Name: p.Name, Description: p.Description, Groups: p.Groups})
	}
	return m
}
