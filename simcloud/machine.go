package simcloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/driver/verbatim"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud/internal/bus"
)

// machine is a host with its hardware.
type machine struct {
	host         Host
	provider     string                        // uuid of the root provider; empty: nova-compute makes it
	tree         driver.Tree                   // nil: no hardware
	dir          *sysfs.DirTree                // the tree, if it is a directory
	written      *bus.Tree                     // the tree as the drivers have it, if it is synthetic
	verbatim     *verbatim.Driver              // the devices that the model describes
	simulated    []driver.Machine              // the drivers that are their own hardware
	created      bool                          // the root provider is in Placement
	older        map[string]bool               // mediated devices and functions with vGPUs that were there before
	snapshotters map[string]driver.Snapshotter // the drivers that remember something, by name
	guard        driver.Guard                  // of calls that Cyborg does not make
	defined      []driver.Mdev                 // in libvirt, ordered by uuid; replaced under the lock of the cloud's hardware
}

// askLimit bounds the time in which a driver saves or restores its state.
const askLimit = 30 * time.Second

// ask calls a driver, which may be a vendor's with a defect. Do must not touch anything that is used after an
// error.
func (m *machine) ask(asked any, step string, do func() error) error {
	d, isDriver := asked.(driver.Driver)
	if !isDriver || asked == m.verbatim {
		return do()
	}
	return m.guard.Call(context.Background(), d, step, askLimit, func(context.Context) error { return do() })
}

// newMachine opens or generates the hardware of a host.
func newMachine(trees *bus.Generator, seed uint64, h Host) (*machine, error) {
	m := &machine{host: h, verbatim: verbatim.New(h.Devices), older: make(map[string]bool)}
	if h.Root != RootNova {
		m.provider = cmp.Or(h.ProviderUUID, providerUUID(seed, h.Name))
	}
	if h.Sysfs == nil {
		return m, nil
	}
	if h.Sysfs.Dir == "" {
		tree, err := trees.Generate(sysfs.Description{Devices: h.Sysfs.Devices, MdevParents: h.Sysfs.MdevParents})
		if err != nil {
			return nil, fmt.Errorf("sysfs: %w", err)
		}
		m.tree = tree
		return m, nil
	}
	dir, err := sysfs.OpenDir(h.Sysfs.Dir, sysfs.DirOptions{Write: h.Sysfs.Write})
	if err != nil {
		return nil, fmt.Errorf("sysfs.dir: %w", err)
	}
	m.tree, m.dir = dir, dir
	mdevs, err := m.mdevs()
	vgpus, vgpuErr := sysfs.VGPUs(dir)
	if err = cmp.Or(err, vgpuErr); err != nil {
		return nil, errors.Join(fmt.Errorf("sysfs.dir: %w", err), dir.Close())
	}
	for _, mdev := range mdevs {
		m.older[mdev.UUID] = true
	}
	for function := range vgpus {
		m.older[function.String()] = true
	}
	return m, nil
}

// providerUUID derives the UUID of a compute root, as Nova generates one for each compute node.
func providerUUID(seed uint64, name string) string {
	return simhttp.NewIDs(seed, "provider "+name).UUID()
}

// agent is the host as Cyborg knows it: what the drivers find, then what the
// model describes.
func (m *machine) agent(registry *builtin.Registry) (driver.Host, error) {
	drivers, err := m.drivers(registry)
	m.simulated = []driver.Machine{m.verbatim}
	for _, d := range drivers {
		if simulated, ok := d.(driver.Machine); ok {
			m.simulated = append(m.simulated, simulated)
		}
	}
	if len(m.host.Devices) > 0 {
		drivers = append(drivers, m.verbatim)
	}
	m.snapshotters = make(map[string]driver.Snapshotter)
	for _, d := range drivers {
		if snapshotter, ok := d.(driver.Snapshotter); ok {
			m.snapshotters[d.Name()] = snapshotter
		}
	}
	agent := driver.Host{Name: m.host.Name, Fallback: m.host.Fallback, Drivers: drivers, Reboot: func() { _ = m.reboot() }} // what a driver leaves is a leak
	if nova := m.host.Nova; nova != nil && len(nova.DeviceSpec) > 0 {
		agent.NovaClaims = nova.claims
	}
	return agent, err
}

// newAgent makes host i of a model. The machine, if there is one, is to be closed even
// with an error.
func newAgent(trees *bus.Generator, drivers *builtin.Registry, seed uint64, i int, h Host) (*machine, driver.Host, error) {
	m, err := newMachine(trees, seed, h)
	if err != nil {
		return nil, driver.Host{}, fmt.Errorf("%w: hosts[%d].%w", ErrModel, i, err)
	}
	agent, err := m.agent(drivers)
	if err != nil {
		return m, driver.Host{}, fmt.Errorf("%w: hosts[%d].%w", ErrModel, i, err)
	}
	return m, agent, nil
}

// mdevs lists the mediated devices that are there now.
func (m *machine) mdevs() ([]driver.Mdev, error) {
	var mdevs []driver.Mdev
	var broken []error
	for _, d := range m.simulated {
		var own []driver.Mdev
		if err := m.ask(d, "list mediated devices", func() error { own = d.Mdevs(); return nil }); err != nil {
			broken = append(broken, err)
			continue
		}
		mdevs = append(mdevs, own...)
	}
	err := errors.Join(broken...)
	if m.tree == nil {
		return mdevs, err
	}
	inTree, treeErr := sysfs.Mdevs(m.tree)
	err = cmp.Or(err, treeErr)
	mdevs = append(mdevs, inTree...)
	slices.SortFunc(mdevs, func(a, b driver.Mdev) int { return cmp.Compare(a.UUID, b.UUID) })
	return mdevs, err
}

func (m *machine) close() error {
	if m.dir == nil {
		return nil
	}
	return m.dir.Close()
}

// HostNames lists the hosts in the model's order.
func (c *Cloud) HostNames() []string {
	names := make([]string, 0, len(c.machines))
	for _, m := range c.machines {
		names = append(names, m.host.Name)
	}
	return names
}

// machine returns the machine of a host, nil for an unknown one.
func (c *Cloud) machine(host string) *machine { return c.machineOf[host] }

// noHost is the error about an unknown host. It names the hosts of a small cloud, and of a large one the host whose name
// begins most like the unknown one.
func (c *Cloud) noHost(name string) error {
	names := c.HostNames()
	if len(names) == 0 {
		return fmt.Errorf("%w: %q; the cloud has no hosts", ErrHost, name)
	}
	if len(names) > maxNamedHosts {
		nearest := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(similarity(a, name), similarity(b, name)) })
		return fmt.Errorf("%w: %q; the nearest of %d is %s", ErrHost, name, len(names), nearest)
	}
	return fmt.Errorf("%w: %q; the hosts are %s", ErrHost, name, strings.Join(names, ", "))
}

// maxNamedHosts is how many hosts an error names.
const maxNamedHosts = 8

// similarity is twice the length of the common prefix of two names, less the difference of their lengths.
func similarity(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return 2*n - max(len(a)-len(b), len(b)-len(a))
}

// isHost reports whether a host has a name, also as its Fallback.
func (c *Cloud) isHost(name string) bool {
	return c.machine(name) != nil || name != "" && slices.ContainsFunc(c.machines, func(m *machine) bool { return m.host.Fallback == name })
}

// hasRoot reports whether Placement has a host that is not in the model: another agent or nova-compute may report one.
func (c *Cloud) hasRoot(name string) bool {
	return slices.ContainsFunc(c.providers(), func(p placementsim.ResourceProvider) bool { return p.Parent == "" && p.Name == name })
}

// providers returns the providers of the cloud's Placement.
func (c *Cloud) providers() []placementsim.ResourceProvider {
	if c.external == nil {
		return c.Placement.ResourceProviders()
	}
	providers, _, _ := c.placementState()
	return providers()
}

// ProviderUUID returns the uuid of a host's root resource provider, or "" for an unknown host and
// for one that nova-compute has not made. The UUID of a deleted provider is returned until
// another provider has the host's name.
func (c *Cloud) ProviderUUID(host string) string {
	m := c.machine(host)
	if m == nil {
		return ""
	}
	return cmp.Or(c.namedRoots(c.providers)(m), m.provider)
}

// namedRoots finds the root provider of a host by its name, or returns "". It differs from the
// provider made by the cloud if nova-compute makes the hosts, or has recreated a deleted one. The
// providers are read only for such a host.
func (c *Cloud) namedRoots(providers func() []placementsim.ResourceProvider) func(*machine) string {
	named := sync.OnceValue(func() map[string]string {
		roots := make(map[string]string)
		for _, p := range providers() {
			if p.Parent == "" {
				roots[p.Name] = p.UUID
			}
		}
		return roots
	})
	return func(m *machine) string {
		if own, err := c.Placement.ResourceProvider(m.provider); err == nil && own.Name == m.host.Name {
			return m.provider
		}
		return cmp.Or(named()[m.host.Name], named()[m.host.Fallback])
	}
}

// Mdevs lists the mediated devices that a host has now, ordered by uuid. The error is [ErrHost]
// for an unknown host, or the error of an unreadable directory.
func (c *Cloud) Mdevs(host string) ([]driver.Mdev, error) {
	m := c.machine(host)
	if m == nil {
		return nil, c.noHost(host)
	}
	return m.mdevs()
}

// Overlaid lists the writes to a host's directory (Sysfs.Dir without Write) that were
// recorded instead of done, oldest first, each as "name <- content". It is empty for any
// other host.
func (c *Cloud) Overlaid(host string) []string {
	if m := c.machine(host); m != nil && m.dir != nil {
		return m.dir.Overlaid()
	}
	return nil
}

// Findings returns the last results of the drivers of all hosts: how many devices they found,
// which they skipped and why, which ones Nova also offers, and which problems they had.
func (c *Cloud) Findings() []driver.HostReport { return c.Cyborg.DriverReports() }

// drivers loads the drivers of the model.
func (m *machine) drivers(registry *builtin.Registry) ([]driver.Driver, error) {
	if m.host.Drivers == nil {
		return nil, nil
	}
	c := *m.host.Drivers
	c.Host = m.host.Name
	if m.dir == nil && c.Mounts == nil {
		c.Mounts = []string{} // synthetic disks are mounted if the model says so
	}
	tree := m.tree
	if memory, synthetic := tree.(*sysfs.Memory); synthetic {
		m.written = &bus.Tree{Memory: memory}
		tree = m.written
	}
	loaded, err := registry.New(c, tree)
	if err != nil {
		return nil, fmt.Errorf("drivers.%w", err)
	}
	return loaded, nil
}

// drivers checks which drivers a host loads. Their options are checked in New.
func (c *validation) drivers(path string, h Host) {
	d := *h.Drivers
	if d.Host = cmp.Or(d.Host, h.Name); d.Host != h.Name {
		c.fault(path+".host", fmt.Sprintf("%q is not the name of this host", d.Host))
	}
	if err := d.Policy.Check(); err != nil {
		c.faultsOf(path, err)
	}
	if c.registry == nil {
		return
	}
	for _, err := range c.registry.Check(d) {
		c.fault("", path+"."+err.Error())
	}
	for _, name := range c.registry.Enabled(d) {
		if h.Sysfs == nil && c.registry.NeedsTree(name) {
			c.fault(path, fmt.Sprintf("the driver %s reads a sysfs, and the host has none", name))
		}
	}
}

// StopHost shuts a host down: its mediated devices and vGPUs vanish and its agent is silent. The
// guests stay defined. The error matches [ErrHost] or [ErrDirectory].
func (c *Cloud) StopHost(host string) error {
	m := c.machine(host)
	switch {
	case m == nil:
		return c.noHost(host)
	case m.dir != nil:
		return fmt.Errorf("%w: %q", ErrDirectory, host)
	}
	if err := c.Cyborg.StopAgent(host); err != nil {
		return fmt.Errorf("simcloud: stop host %s: %w", host, err)
	}
	if err := c.reboot(m); err != nil {
		return fmt.Errorf("simcloud: stop host %s: %w", host, err)
	}
	return nil
}

func (c *Cloud) reboot(m *machine) error {
	err := m.reboot()
	c.hardware.commit(m)
	return err
}

// reboot is what a restart does to the hardware. A directory is not ours to restart.
func (m *machine) reboot() error {
	var broken []error
	for _, d := range m.simulated {
		broken = append(broken, m.ask(d, "reboot", func() error { d.Reboot(); return nil }))
	}
	if tree, ok := m.tree.(*sysfs.Memory); ok {
		tree.Reboot()
	}
	return errors.Join(broken...)
}

// StartHost starts a stopped host: libvirt creates the mediated devices of [Cloud.DefineMdev], and then the agent starts. It
// returns when that has created the mediated devices and vGPUs of the bound requests again, unless nova-compute does
// ([fakecyborg.MdevsByNova]), and has reported. It returns the errors of StopHost and of the report.
func (c *Cloud) StartHost(ctx context.Context, host string) error {
	m := c.machine(host)
	if m == nil {
		return c.noHost(host)
	}
	c.autostart(ctx, m)
	if err := c.Cyborg.StartAgent(ctx, host); err != nil {
		return fmt.Errorf("simcloud: start host %s: %w", host, err)
	}
	return nil
}

// RebootHost stops and starts a host.
func (c *Cloud) RebootHost(ctx context.Context, host string) error {
	if err := c.StopHost(host); err != nil {
		return err
	}
	return c.StartHost(ctx, host)
}
