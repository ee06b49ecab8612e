package discover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// Mdev makes and removes mediated devices and vGPUs.
type Mdev struct {
	Create createMdev `cmd:"" help:"Create a mediated device, or set the vGPU type of a virtual function."`
	Remove removeMdev `cmd:"" help:"Remove a mediated device, or clear the vGPU type of a virtual function."`
}

// Help implements kong.HelpProvider.
func (*Mdev) Help() string {
	return "With a UUID, the device is a mediated device of PARENT. Without a UUID, it is the vGPU of the virtual function PARENT, of a card that has no mediated devices." +
		" The configured drivers do it, as they do for a bind. Creating an existing mediated device and removing a missing device are not errors." +
		" Exit status: 0 success; 1 the kernel refused; 2 a bad argument, flag or file, a type that is not offered, or another agent on the same sysfs."
}

// mdevArgs are the arguments of both verbs.
type mdevArgs struct {
	Parent string `arg:"" help:"PCI address such as 0000:84:00.0, or another device such as mtty."`
	Type   string `arg:"" help:"Type, such as nvidia-35."`
	UUID   string `arg:"" optional:"" help:"UUID of the mediated device: the UUID of the attach handle in Cyborg."`

	Sysfs        string `placeholder:"DIR" default:"/sys" help:"Mount point of the sysfs (${default})."`
	DriverConfig string `placeholder:"FILE" help:"Configuration of the drivers: a cyborg.conf, or JSON."`
	DriverWrites bool   `help:"Allow command_driver to call its program, if its section sets writes."`
}

type createMdev struct{ mdevArgs }

type removeMdev struct{ mdevArgs }

// Run implements the command.
func (c *createMdev) Run(ctx context.Context, p *command.Process) error {
	return c.run(ctx, p, (*machine).create)
}

// Run implements the command.
func (c *removeMdev) Run(ctx context.Context, p *command.Process) error {
	return c.run(ctx, p, (*machine).remove)
}

// makeLimit is the time that a driver has to make or remove a device.
const makeLimit = 30 * time.Second

// instance is a mediated device or the vGPU of a virtual function.
type instance struct {
	mdev driver.Mdev // if it has a UUID
	vgpu driver.VGPU
}

func (i instance) isMdev() bool { return i.mdev.UUID != "" }

// of reports whether it can be the device of a handle.
func (i instance) of(h driver.AttachHandle) bool {
	if i.isMdev() {
		m, err := h.Mdev(i.mdev.UUID)
		return err == nil && m == i.mdev
	}
	v, found, err := h.VGPU()
	return found && err == nil && v == i.vgpu
}

func (a mdevArgs) instance() (i instance, err error) {
	if a.UUID != "" {
		i.mdev = driver.Mdev{UUID: strings.ToLower(a.UUID), Parent: a.Parent, Type: a.Type}
		return i, i.mdev.Validate()
	}
	if i.vgpu.Function, err = driver.ParsePCIAddress(a.Parent); err == nil {
		i.vgpu.Type, err = driver.ParseVGPUType(a.Type)
	}
	if err != nil {
		err = fmt.Errorf("%w; a mediated device has a UUID as the third argument", err)
	}
	return i, err
}

// machine is the hardware with its drivers.
type machine struct {
	tree    driver.Tree
	drivers []driver.Driver
	guard   driver.Guard
}

func (a mdevArgs) run(ctx context.Context, p *command.Process, do func(*machine, context.Context, instance) error) error {
	i, err := a.instance()
	if err != nil {
		return command.BadInput(err)
	}
	reader := Command{Sysfs: a.Sysfs, DriverConfig: a.DriverConfig}
	config, err := reader.config(ctx)
	if err != nil {
		return err
	}
	tree, err := sysfs.OpenDir(a.Sysfs, sysfs.DirOptions{Write: true})
	if err != nil {
		return command.BadInput(fmt.Errorf("--sysfs: %w", err))
	}
	defer tree.Close()
	unlock, err := command.LockTree(a.Sysfs, false)
	if err != nil {
		return err
	}
	defer unlock()
	known, err := registry(p.Log, a.DriverWrites)
	if err != nil {
		return err
	}
	m := &machine{tree: tree}
	if m.drivers, err = known.New(config, tree); err != nil {
		return command.BadInput(fmt.Errorf("%s: %w", reader.configSource(), err))
	}
	return do(m, ctx, i)
}

// create makes it by the driver that offers it.
func (m *machine) create(ctx context.Context, i instance) error {
	reports := m.guard.DiscoverAll(ctx, m.drivers)
	for n, d := range m.drivers {
		if !offers(reports[n], i) {
			continue
		}
		return m.guard.Call(ctx, d, "create", makeLimit, func(ctx context.Context) error {
			if maker, ok := d.(driver.MdevDriver); ok && i.isMdev() {
				return maker.CreateMdev(ctx, i.mdev)
			}
			if maker, ok := d.(driver.VGPUDriver); ok && !i.isMdev() {
				return maker.SetVGPU(ctx, i.vgpu, false)
			}
			return fmt.Errorf("the driver %s creates none", d.Name())
		})
	}
	return notOffered(m.drivers, reports, i)
}

func offers(r driver.Report, i instance) bool {
	return slices.ContainsFunc(r.Devices, func(d driver.Device) bool {
		return slices.ContainsFunc(d.Deployables, func(p driver.Deployable) bool {
			return slices.ContainsFunc(p.AttachHandles, i.of)
		})
	})
}

// notOffered returns why nothing can be made, if the drivers report it.
func notOffered(drivers []driver.Driver, reports []driver.Report, i instance) error {
	parent, typ := i.mdev.Parent, i.mdev.Type
	if !i.isMdev() {
		parent, typ = i.vgpu.Function.String(), fmt.Sprint("nvidia-", i.vgpu.Type)
	}
	var why []error
	for n, r := range reports {
		why = append(why, r.Err)
		for _, l := range r.LeftOut {
			if l.Address == parent {
				why = append(why, fmt.Errorf("%s: %s", drivers[n].Name(), l.Reason))
			}
		}
		for _, p := range r.Problems {
			if p.Address == parent {
				why = append(why, p)
			}
		}
	}
	if err := errors.Join(why...); err != nil {
		return fmt.Errorf("no driver offers type %s on %s: %w", typ, parent, err)
	}
	return command.BadInput(fmt.Errorf("no driver offers type %s on %s; it has to be enabled in the configuration, [gpu_devices] enabled_vgpu_types for one of NVIDIA's", typ, parent))
}

// remove removes it by the drivers that can.
func (m *machine) remove(ctx context.Context, i instance) error {
	removers := m.removers(ctx, i)
	if len(removers) == 0 {
		return command.BadInput(errors.New("the configuration enables no driver that could remove it"))
	}
	for _, d := range removers {
		err := m.guard.Call(ctx, d, "remove", makeLimit, func(ctx context.Context) error {
			if i.isMdev() {
				return d.(driver.MdevDriver).RemoveMdev(ctx, i.mdev)
			}
			return d.(driver.VGPUDriver).ClearVGPU(ctx, i.vgpu)
		})
		if err != nil {
			return err
		}
	}
	return m.checkRemoved(i)
}

// removers returns the driver that offers it, or else the drivers that write to the tree, since
// the type may no longer be configured.
func (m *machine) removers(ctx context.Context, i instance) (list []driver.Driver) {
	reports := m.guard.DiscoverAll(ctx, m.drivers)
	for n, d := range m.drivers {
		_, can := d.(driver.MdevDriver)
		if !i.isMdev() {
			_, can = d.(driver.VGPUDriver)
		}
		_, writes := d.(driver.TreeDriver)
		switch {
		case can && offers(reports[n], i):
			return []driver.Driver{d}
		case can && writes:
			list = append(list, d)
		}
	}
	return list
}

// checkRemoved returns an error if the mediated device has another parent or type.
func (m *machine) checkRemoved(i instance) error {
	if !i.isMdev() {
		return nil
	}
	left, err := sysfs.Mdevs(m.tree)
	if err != nil {
		return fmt.Errorf("it is unknown whether mediated device %s was removed: %w", i.mdev.UUID, err)
	}
	for _, other := range left {
		if other.UUID == i.mdev.UUID && other != i.mdev {
			return command.BadInput(fmt.Errorf("mediated device %s is of type %s on %s", other.UUID, other.Type, other.Parent))
		}
	}
	return nil
}
