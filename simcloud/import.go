package simcloud

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// Import makes a cloud of what was read of a real one. Its Placement holds exactly what is
// listed, generations included. Its Cyborg has the devices, deployables, attributes,
// device profiles and accelerator requests with their uuids and numbers, and the requests
// that are Bound hold their attach handles. Each host's agent reports the devices as they
// are listed, so that a report changes nothing.
//
// What no API shows is marked as unknown: the device of a deployable, if its host has devices
// without deployables; control paths, as far as the names of deployables do not tell
// addresses; and all attach handles but those of bound requests, up to the number of
// accelerators of each deployable. An unknown address is in PCI domain ffff or above.
// Requests that are BindStarted hold no handle and stay so until they are unbound or
// deleted. There are no guests, because Nova is not read, so [Cloud.Leaks] tells of every
// request and allocation; and the users are those of [DefaultModel], not the cloud's.
//
// The error matches [ErrListing] for a listing that no cloud can be made of, and
// [ErrNoState] with [WithExternalPlacement], which would have to be written to.
func Import(ctx context.Context, l Listing, opts ...Option) (*Cloud, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := newImported(l)
	if err != nil {
		return nil, err
	}
	m := w.model()
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%w: what is made of it cannot be: %w", ErrListing, err)
	}
	placement, err := json.Marshal(w.placement())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListing, err)
	}
	accelerator, err := json.Marshal(w.accelerator(m))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListing, err)
	}
	return newImport(ctx, m, newSettings(opts), func(c *Cloud) error { return c.take(ctx, w, placement, accelerator) })
}

// newImport makes the cloud, in a state file if there is to be one.
func newImport(ctx context.Context, m Model, set settings, fill func(*Cloud) error) (*Cloud, error) {
	switch {
	case set.external != nil:
		return nil, fmt.Errorf("%w: it would have an external Placement", ErrNoState)
	case set.stateFile == "":
		return assemble(m, set, fill)
	}
	return withFile(ctx, set, func(old map[string][]byte) (*Cloud, error) {
		if len(old) > 0 {
			return nil, fmt.Errorf("%w: %s holds a state already", ErrState, set.stateFile)
		}
		return assemble(m, set, fill)
	})
}

// take is to a cloud of a listing what build is to one of a model.
func (c *Cloud) take(ctx context.Context, w *imported, placement, accelerator []byte) error {
	agents := make([]fakecyborg.Host, 0, len(c.model.Hosts))
	for i, h := range c.model.Hosts {
		m, agent, err := c.newMachine(i, h)
		if err != nil {
			return err
		}
		agents = append(agents, agent)
		for _, mdev := range w.mdevs(h.Name) {
			if err := m.given.CreateMdev(ctx, mdev); err != nil {
				return fmt.Errorf("%w: host %s: the mediated device of a bound request: %w", ErrListing, h.Name, err)
			}
		}
	}
	if err := c.Placement.Load(placement); err != nil {
		return fmt.Errorf("%w: placement: %w", ErrListing, err)
	}
	if err := c.Cyborg.Load(accelerator); err != nil {
		return fmt.Errorf("%w: accelerator: %w", ErrListing, err)
	}
	for _, agent := range agents { // they start when they know what is there
		if err := c.Cyborg.AddHost(agent); err != nil {
			return fmt.Errorf("simcloud: add host %s: %w", agent.Name, err)
		}
	}
	c.Cyborg.Resume()
	return nil
}

// imported is a listing with what was found out about it.
type imported struct {
	Listing
	seed      uint64
	providers map[string]ListedProvider // by uuid
	mode      string                    // of Placement
	hosts     []importedHost
	devices   []*importedDevice // in the order of their numbers
	parts     []*importedPart   // in the order of their numbers
	hostnames map[string]bool   // hosts of Cyborg's
	cyborgs   map[string]bool   // uuids of the providers of deployables, and of those above them
}

// importedHost is a compute host.
type importedHost struct {
	name string
	root *ListedProvider // nil: Placement has none
}

// importedDevice is a device with what was made up.
type importedDevice struct {
	ListedDevice
	id   int
	path driver.ControlPath
	// parts are its deployables, in the order of their numbers.
	parts []*importedPart
}

// importedPart is a deployable with what was made up.
type importedPart struct {
	ListedDeployable
	id         int
	host       string
	device     *importedDevice
	attributes []importedAttribute
	handles    []importedHandle
	memory     map[string]int // further inventories
}

// importedAttribute is an attribute of a deployable.
type importedAttribute struct {
	ListedAttribute
	order  int  // in the list of all attributes
	byUser bool // no driver reported it
}

// importedHandle is an attach handle, with the request that holds it.
type importedHandle struct {
	uuid string // empty: made up
	driver.AttachHandle
	holder string
}

// newImported finds out what belongs to what.
func newImported(l Listing) (*imported, error) {
	data, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListing, err)
	}
	sum := sha256.Sum256(data)
	w := &imported{
		Listing: l, providers: make(map[string]ListedProvider, len(l.Placement.ResourceProviders)),
		hostnames: make(map[string]bool), cyborgs: make(map[string]bool),
		seed: binary.BigEndian.Uint64(sum[:8]) >> 11, // of 53 bits, so that every reader of JSON has it right
	}
	for _, p := range l.Placement.ResourceProviders {
		w.providers[p.UUID] = p
	}
	if l.Accelerator != nil {
		for _, d := range l.Accelerator.Devices {
			w.hostnames[d.Hostname] = true
		}
		for _, d := range l.Accelerator.Deployables {
			w.cyborgs[d.ProviderUUID] = true
			if above := w.providers[d.ProviderUUID].Parent; above != "" {
				w.cyborgs[above] = true
			}
		}
	}
	if err := w.join(); err != nil {
		return nil, err
	}
	w.findHosts()
	w.findMode()
	w.findPaths()
	w.findHandles()
	for _, part := range w.parts {
		w.judgeAttributes(part)
		w.findMemory(part)
	}
	return w, nil
}

// id is a uuid that stands for something made up.
func (w *imported) id(kind, name string) string {
	x := &replacer{Replacement: Replacement{Seed: w.seed}}
	return dashed(x.digest(kind + "\x00" + name))
}

func dashed(bare string) string {
	return bare[:8] + "-" + bare[8:12] + "-" + bare[12:16] + "-" + bare[16:20] + "-" + bare[20:]
}
