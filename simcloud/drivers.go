package simcloud

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/ascend"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/ssd"
)

// Drivers are the drivers of one agent, each with its configuration; Host is filled in.
// A driver is loaded when it has a section here, or when EnabledDrivers names it.
type Drivers struct {
	// EnabledDrivers are the drivers to load by upstream's names, such as
	// nvidia_gpu_driver ([agent] enabled_drivers). Nil means those that have a section;
	// with a list there may be no section of a driver that is not in it.
	EnabledDrivers []string `json:"enabled_drivers,omitzero"`
	// Policy counts for every driver whose section does not set the option. On synthetic
	// hardware no disk is mounted but those of Mounts.
	driver.Policy
	// Fake reports a device with sixteen TEST_PCI handles.
	Fake bool `json:"fake,omitempty"`
	// NVIDIA finds GPUs, whole or divided.
	NVIDIA *nvidia.Config `json:"nvidia,omitempty"`
	// FPGA finds the FPGAs of Intel, Xilinx and Inspur, which are three drivers.
	FPGA *fpga.Config `json:"fpga,omitempty"`
	// QAT finds Intel's QuickAssist, NIC for Intel's network cards, SSD for NVMe
	// disks, Ascend for Huawei's AI chips, HPTS for high precision time cards.
	QAT    *qat.Config    `json:"qat,omitempty"`
	NIC    *nic.Config    `json:"nic,omitempty"`
	SSD    *ssd.Config    `json:"ssd,omitempty"`
	Ascend *ascend.Config `json:"ascend,omitempty"`
	HPTS   *hpts.Config   `json:"hpts,omitempty"`
	// PCI offers the functions of a whitelist.
	PCI *pci.Config `json:"pci,omitempty"`
	// Mdev makes mediated devices on parents that are not on the PCI bus.
	Mdev *mdev.Config `json:"mdev,omitempty"`
}

// driverSection is a section of Drivers and the drivers that it is for.
type driverSection struct {
	path  string
	set   bool
	host  string // as the section has it
	names []string
}

func (d Drivers) sections() []driverSection {
	section := func(path string, set bool, host string, names ...string) driverSection {
		return driverSection{path, set, host, names}
	}
	return []driverSection{
		section("fake", d.Fake, "", builtin.Fake),
		section("nvidia", d.NVIDIA != nil, orZero(d.NVIDIA).Host, builtin.NVIDIA),
		section("fpga", d.FPGA != nil, orZero(d.FPGA).Host, builtin.IntelFPGA, builtin.XilinxFPGA, builtin.InspurFPGA),
		section("qat", d.QAT != nil, orZero(d.QAT).Host, builtin.IntelQAT),
		section("nic", d.NIC != nil, orZero(d.NIC).Host, builtin.IntelNIC),
		section("ssd", d.SSD != nil, orZero(d.SSD).Host, builtin.InspurSSD),
		section("ascend", d.Ascend != nil, orZero(d.Ascend).Host, builtin.Ascend),
		section("hpts", d.HPTS != nil, orZero(d.HPTS).Host, builtin.HPTS),
		section("pci", d.PCI != nil, orZero(d.PCI).Host, builtin.PCI),
		section("mdev", d.Mdev != nil, orZero(d.Mdev).Host, builtin.Mdev),
	}
}

func orZero[T any](p *T) T {
	if p == nil {
		p = new(T)
	}
	return *p
}

// enabled lists the drivers to load.
func (d Drivers) enabled() []string {
	if d.EnabledDrivers != nil {
		return d.EnabledDrivers
	}
	names := []string{}
	for _, s := range d.sections() {
		if s.set {
			names = append(names, s.names...)
		}
	}
	return names
}

// pathOf is where the configuration of a driver stands.
func (d Drivers) pathOf(name string) string {
	for _, s := range d.sections() {
		if slices.Contains(s.names, name) && s.set {
			return "drivers." + s.path
		}
	}
	return "drivers.enabled_drivers"
}

// config is the configuration of all drivers of a host.
func (d Drivers) config(host string) builtin.Config {
	c := builtin.Config{
		Host: host, Policy: d.Policy,
		NVIDIA: orZero(d.NVIDIA), FPGA: orZero(d.FPGA), QAT: orZero(d.QAT), NIC: orZero(d.NIC), SSD: orZero(d.SSD),
		Ascend: orZero(d.Ascend), HPTS: orZero(d.HPTS), PCI: orZero(d.PCI), Mdev: orZero(d.Mdev),
	}
	return c
}

// drivers loads the drivers of the model.
func (m *machine) drivers() (loaded []driver.Driver, err error) {
	d := m.host.Drivers
	if d == nil {
		return nil, nil
	}
	c := d.config(m.host.Name)
	if m.dir == nil && c.Mounts == nil {
		c.Mounts = []string{} // synthetic disks are mounted if the model says so
	}
	for _, name := range d.enabled() {
		c.EnabledDrivers = []string{name}
		one, err := builtin.New(c, m.tree)
		if err != nil {
			return loaded, fmt.Errorf("%s: %w", d.pathOf(name), err)
		}
		loaded = append(loaded, one...)
	}
	return loaded, nil
}

// drivers checks which drivers a host loads. Their options are checked in New.
func (c *validation) drivers(path string, h Host) {
	d := h.Drivers
	enabled := d.enabled()
	for i, name := range enabled {
		here := fmt.Sprintf("%s.enabled_drivers[%d]", path, i)
		switch {
		case !slices.Contains(builtin.Names(), name):
			c.fault(here, fmt.Sprintf("unknown driver %q (known: %s)", name, strings.Join(builtin.Names(), ", ")))
		case slices.Contains(enabled[:i], name):
			c.fault(here, fmt.Sprintf("%q occurs twice", name))
		case h.Sysfs == nil && name != builtin.Fake:
			c.fault(path, fmt.Sprintf("the driver %s reads a sysfs, and the host has none", name))
		}
	}
	if err := d.Policy.Check(); err != nil {
		c.fault(path, err.Error())
	}
	for _, s := range d.sections() {
		if s.set && !slices.ContainsFunc(s.names, func(name string) bool { return slices.Contains(enabled, name) }) {
			c.fault(path+"."+s.path, "enabled_drivers does not name the driver: "+strings.Join(s.names, ", "))
		}
		if s.host != "" && s.host != h.Name {
			c.fault(path+"."+s.path+".host", fmt.Sprintf("%q is not the name of this host", s.host))
		}
	}
}
