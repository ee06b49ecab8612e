package drivertest_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/driver/verbatim"
)

const vgpuName = "NVIDIA RTX Pro 6000 Blackwell DC-48Q"

// hardware has two mediated devices of mtty, and a card of NVIDIA's with two vGPUs.
func hardware() sysfs.Description {
	return sysfs.Description{
		Devices: []sysfs.PCIDevice{{Address: "0000:1f:00.0", Vendor: "10de", Product: "2bb5", Class: "0302", Driver: "nvidia",
			VFs: &sysfs.VFs{Total: 4, Enabled: 4, Offset: 2, Driver: "nvidia", VGPUs: &sysfs.VGPUCard{Types: []sysfs.VGPUType{
				{ID: 1555, Name: vgpuName, FramebufferMiB: 49152, MaxInstances: 2},
			}}}}},
		MdevParents: []sysfs.MdevParent{{
			Name: "mtty", Types: []sysfs.MdevType{{Type: "mtty-2", Name: "Dual port serial", AvailableInstances: 2}},
		}},
	}
}

// maker makes mediated devices with configured defects.
type maker struct {
	create, remove func(context.Context, driver.Mdev) error
}

func (m maker) CreateMdev(ctx context.Context, x driver.Mdev) error { return m.create(ctx, x) }

func (m maker) RemoveMdev(ctx context.Context, x driver.Mdev) error { return m.remove(ctx, x) }

// reader is a driver of a tree that makes mediated devices.
type reader struct {
	driver.TreeDriver
	maker
}

// serial returns a driver of mtty, changed.
func serial(change func(*reader)) func(driver.Tree) (driver.Driver, error) {
	return func(tree driver.Tree) (driver.Driver, error) {
		d, err := mdev.New(mdev.Config{Host: "compute1", EnabledMdevTypes: []mdev.Type{{Name: "mtty-2", Parents: []string{"mtty"}}}}, tree)
		if err != nil {
			return nil, err
		}
		r := &reader{d, maker{d.CreateMdev, d.RemoveMdev}}
		change(r)
		return r, nil
	}
}

// others calls do for the mediated devices of a tree but one.
func others(tree driver.Tree, m driver.Mdev, do func(driver.Mdev) error) error {
	list, err := sysfs.Mdevs(tree)
	for _, other := range list {
		if other != m {
			err = cmp.Or(err, do(other))
		}
	}
	return err
}

// reporter is a driver whose Discover changes what it reports.
type reporter struct {
	driver.TreeDriver
	change func(*driver.Report)
}

func (r reporter) Discover(ctx context.Context) (driver.Report, error) {
	report, err := r.TreeDriver.Discover(ctx)
	r.change(&report)
	return report, err
}

// reading returns a driver of mtty that reports something else in both ways.
func reading(change func(*driver.Report)) func(driver.Tree) (driver.Driver, error) {
	return serial(func(r *reader) {
		below := r.TreeDriver
		r.TreeDriver = driver.NewTreeReader("mdev", below.Tree(), func(ctx context.Context, view *driver.View) (driver.Report, error) {
			report, err := below.DiscoverIn(ctx, view)
			change(&report)
			return report, err
		})
	})
}

// machine is a driver that is its own hardware, with configured defects.
type machine struct {
	*verbatim.Driver
	maker
	dump    func() ([]byte, error)
	prepare func([]byte) (func(), error)
	reboot  func()
	program func(context.Context, driver.ControlPath, string, []byte) error
}

func (m *machine) CreateMdev(ctx context.Context, x driver.Mdev) error { return m.create(ctx, x) }

func (m *machine) RemoveMdev(ctx context.Context, x driver.Mdev) error { return m.remove(ctx, x) }

func (m *machine) Dump() ([]byte, error) { return m.dump() }

func (m *machine) Prepare(data []byte) (func(), error) { return m.prepare(data) }

func (m *machine) Reboot() { m.reboot() }

func (m *machine) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	return m.program(ctx, path, deployable, image)
}

// own returns a driver of a GPU with two mediated devices and an FPGA, changed.
func own(change func(*machine)) func(driver.Tree) (driver.Driver, error) {
	gpu, fpga := driver.PCIAddress{Bus: 0x3b}, driver.PCIAddress{Bus: 0x5e}
	slice := func(mark string) driver.AttachHandle {
		info := gpu.Info()
		info["asked_type"], info["vgpu_mark"] = "acme-1", mark
		return driver.AttachHandle{Type: driver.HandleMDEV, Info: info}
	}
	devices := []driver.Device{
		{Vendor: "acme", Type: driver.TypeGPU, ControlPath: gpu.ControlPath(), Deployables: []driver.Deployable{{
			Name: "h_gpu", NumAccelerators: 2, Class: "VGPU", AttachHandles: []driver.AttachHandle{slice("0"), slice("1")},
		}}},
		{Vendor: "acme", Type: driver.TypeFPGA, ControlPath: fpga.ControlPath(), Deployables: []driver.Deployable{{
			Name: "h_fpga", NumAccelerators: 1, Class: "FPGA", AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: fpga.Info()}},
		}}},
	}
	return func(driver.Tree) (driver.Driver, error) {
		d := verbatim.New(devices)
		m := &machine{d, maker{d.CreateMdev, d.RemoveMdev}, d.Dump, d.Prepare, d.Reboot, d.Program}
		change(m)
		return m, nil
	}
}

// vgpus is a driver of NVIDIA's cards that sets and clears vGPU types with configured defects.
type vgpus struct {
	driver.TreeDriver
	set        func(context.Context, driver.VGPU, bool) error
	clearTypes func(context.Context, driver.VGPU) error
}

func (v *vgpus) SetVGPU(ctx context.Context, x driver.VGPU, bound bool) error {
	return v.set(ctx, x, bound)
}

func (v *vgpus) ClearVGPU(ctx context.Context, x driver.VGPU) error { return v.clearTypes(ctx, x) }

// graphics returns a driver of NVIDIA's card, changed.
func graphics(change func(*vgpus)) func(driver.Tree) (driver.Driver, error) {
	return func(tree driver.Tree) (driver.Driver, error) {
		d, err := nvidia.New(nvidia.Config{Host: "compute1", EnabledVGPUTypes: []nvidia.VGPUType{{
			Name: "nvidia-1555", DeviceAddresses: []string{"0000:1f:00.0"}, MaxInstances: 2, VGPUName: vgpuName,
		}}}, tree)
		if err != nil {
			return nil, err
		}
		v := &vgpus{d, d.SetVGPU, d.ClearVGPU}
		change(v)
		return v, nil
	}
}

// hidden hides what a driver does but discover and make mediated devices.
type hidden struct {
	driver.Driver
	maker
}

func hide(make func(driver.Tree) (driver.Driver, error)) func(driver.Tree) (driver.Driver, error) {
	return func(tree driver.Tree) (driver.Driver, error) {
		d, err := make(tree)
		if err != nil {
			return nil, err
		}
		m := d.(driver.MdevDriver)
		return hidden{d, maker{m.CreateMdev, m.RemoveMdev}}, nil
	}
}

func TestACorrectDriverPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]drivertest.Case{
		"a driver of a tree":                          {New: serial(func(*reader) {})},
		"one that is no TreeDriver":                   {New: hide(serial(func(*reader) {}))},
		"one of vGPUs":                                {New: graphics(func(*vgpus) {})},
		"one that is its own hardware":                {New: own(func(*machine) {})},
		"one whose hardware is not to be seen":        {New: hide(own(func(*machine) {}))},
		"one that remembers something else than that": {New: own(func(*machine) {}), Change: programmed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Hardware = hardware()
			drivertest.Run(t, c)
		})
	}
}

// programmed writes an image.
func programmed(ctx context.Context, d driver.Driver) error {
	return d.(driver.Programmer).Program(ctx, driver.PCIAddress{Bus: 0x5e}.ControlPath(), "h_fpga", []byte("bits"))
}

// variable names the defect that a process has.
const variable = "GOCYBORG_TEST_DEFECT"

// TestADefectIsFound runs itself with each defect.
func TestADefectIsFound(t *testing.T) {
	if name := os.Getenv(variable); name != "" {
		drivertest.Run(t, drivertest.Case{Hardware: hardware(), New: defects()[name].driver})
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range defects() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process := exec.CommandContext(t.Context(), self, "-test.run=^TestADefectIsFound$/^"+strings.ReplaceAll(tt.check, " ", "_")+"$")
			process.Env = append(os.Environ(), variable+"="+name)
			output, err := process.Output()
			if ended := new(exec.ExitError); !errors.As(err, &ended) || !strings.Contains(string(output), tt.want) {
				t.Errorf("%v, want %q in\n%s", err, tt.want, output)
			}
		})
	}
}

// defect is a driver that breaks a promise, the check that finds it, and what that says.
type defect struct {
	driver      func(driver.Tree) (driver.Driver, error)
	check, want string
}

func defects() map[string]defect {
	const mdevs, snapshot = "mediated devices", "snapshot"
	nothing := func(_ context.Context, m driver.Mdev) error { return m.Validate() }
	return map[string]defect{
		"makes nothing":   {serial(func(r *reader) { r.create = nothing }), mdevs, "there are the mediated devices"},
		"removes nothing": {serial(func(r *reader) { r.remove = nothing }), mdevs, "there are the mediated devices"},
		"removes the others": {serial(func(r *reader) {
			remove := r.remove
			r.remove = func(ctx context.Context, m driver.Mdev) error {
				return errors.Join(remove(ctx, m), others(r.Tree(), m, func(o driver.Mdev) error { return remove(ctx, o) }))
			}
		}), mdevs, "after remove"},
		"replaces the others": {serial(func(r *reader) {
			create := r.create
			r.create = func(ctx context.Context, m driver.Mdev) error {
				return errors.Join(others(r.Tree(), m, func(o driver.Mdev) error { return r.remove(ctx, o) }), create(ctx, m))
			}
		}), mdevs, "after create"},
		"removes the others of its own hardware": {own(func(m *machine) {
			m.remove = func(_ context.Context, x driver.Mdev) error { m.Driver.Reboot(); return x.Validate() }
		}), mdevs, "after remove"},
		"makes an impossible one": {own(func(m *machine) {
			m.create = func(ctx context.Context, x driver.Mdev) error { x.Type = "acme-1"; return m.Driver.CreateMdev(ctx, x) }
		}), mdevs, "bad attach handle"},
		"removes an impossible one": {serial(func(r *reader) {
			remove := r.remove
			r.remove = func(ctx context.Context, m driver.Mdev) error { _ = remove(ctx, m); return nil }
		}), mdevs, "bad attach handle"},
		"keeps them over a restart": {own(func(m *machine) { m.reboot = func() {} }), mdevs, "after create"},

		"sees the host's use in one way": {func(tree driver.Tree) (driver.Driver, error) {
			d, err := serial(func(*reader) {})(tree)
			return reporter{d.(*reader).TreeDriver, func(r *driver.Report) {
				r.Warnings = []driver.Notice{{Address: "mtty", Driver: "mdev", Reason: "in use"}}
			}}, err
		}, "discover", "and DiscoverIn"},
		"has a trait twice": {reading(func(r *driver.Report) {
			for i := range r.Devices {
				p := &r.Devices[i].Deployables[0]
				p.Traits = []string{"CUSTOM_A", "CUSTOM_B", "CUSTOM_A"}
			}
		}), "discover", "has a trait twice"},

		"loads at once": {own(func(m *machine) {
			m.prepare = func(data []byte) (func(), error) {
				load, err := m.Driver.Prepare(data)
				if err == nil {
					load()
				}
				return func() {}, err
			}
		}), snapshot, "prepared, and not loaded"},
		"loads nothing": {own(func(m *machine) {
			m.prepare = func(data []byte) (func(), error) {
				_, err := m.Driver.Prepare(data)
				return func() {}, err
			}
		}), snapshot, "loaded: the dump is"},
		"changes although it refuses": {own(func(m *machine) {
			m.prepare = func(data []byte) (func(), error) {
				load, err := m.Driver.Prepare(data)
				if err != nil {
					err = errors.Join(err, programmed(context.Background(), m.Driver))
				}
				return load, err
			}
		}), snapshot, "refused "},
		"dumps no version": {own(func(m *machine) {
			m.dump = func() ([]byte, error) {
				data, err := m.Driver.Dump()
				return []byte(strings.Replace(string(data), "schema_version", "version", 1)), err
			}
		}), snapshot, "no schema_version"},

		"has perhaps written": {own(func(m *machine) {
			m.program = func(ctx context.Context, _ driver.ControlPath, _ string, _ []byte) error { return ctx.Err() }
		}), "program", "which is not ErrNotWritten"},

		"clears the type of another program": {graphics(func(v *vgpus) {
			below := v.clearTypes
			v.clearTypes = func(ctx context.Context, x driver.VGPU) error { x.Type = 1555; return below(ctx, x) }
		}), "vGPUs", "after clear of another type"},
		"clears the other types": {graphics(func(v *vgpus) {
			below := v.clearTypes
			v.clearTypes = func(ctx context.Context, x driver.VGPU) error {
				types, err := sysfs.VGPUs(v.Tree())
				for function, id := range types {
					err = cmp.Or(err, below(ctx, driver.VGPU{Function: function, Type: id}))
				}
				return err
			}
		}), "vGPUs", "after clear"},
	}
}
