package builtin

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/ascend"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/ssd"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// Config is the configuration of the drivers of one host. A driver without a section has
// its defaults.
type Config struct {
	// EnabledDrivers are the drivers to load, by the names that Names lists ([agent]
	// enabled_drivers). Nil means the drivers that have a section.
	EnabledDrivers []string `json:"enabled_drivers,omitzero"`
	// Host starts the names of deployables ([DEFAULT] host). A section has the same, or
	// leaves it out.
	Host string `json:"host,omitempty"`
	// Policy counts for every driver whose section does not set the option.
	driver.Policy
	// Fake reports a device with sixteen TEST_PCI handles.
	Fake bool `json:"fake,omitempty"`
	// NVIDIA finds GPUs, whole or divided ([gpu_devices], [vgpu_TYPE]).
	NVIDIA *nvidia.Config `json:"nvidia,omitempty"`
	// FPGA finds the FPGAs of Intel, Xilinx and Inspur, which are three drivers.
	FPGA *fpga.Config `json:"fpga,omitempty"`
	// QAT finds Intel's QuickAssist.
	QAT *qat.Config `json:"qat,omitempty"`
	// NIC finds Intel's network cards ([nic_devices], [TYPE]).
	NIC *nic.Config `json:"nic,omitempty"`
	// SSD finds NVMe disks, Ascend Huawei's AI chips, HPTS high precision time cards.
	SSD    *ssd.Config    `json:"ssd,omitempty"`
	Ascend *ascend.Config `json:"ascend,omitempty"`
	HPTS   *hpts.Config   `json:"hpts,omitempty"`
	// PCI offers the functions of a whitelist ([pci]).
	PCI *pci.Config `json:"pci,omitempty"`
	// Mdev makes mediated devices on parents that are not on the PCI bus (Nova's
	// [mdev_TYPE]).
	Mdev *mdev.Config `json:"mdev,omitempty"`
	// Sections are those of drivers from outside, by the names of their entry points, see Registry.
	Sections map[string]json.RawMessage `json:"sections,omitempty"`
}

// ParseConfig reads a configuration from JSON. Unknown fields are refused; the error wraps
// driver.ErrConfig. What the drivers refuse shows in New.
func ParseConfig(data []byte) (Config, error) {
	var c Config
	if err := strictjson.Decode(data, &c); err != nil {
		return Config{}, fmt.Errorf("%w: %w", driver.ErrConfig, err)
	}
	return c, nil
}

// section is a section of a Config and the drivers that it is for.
type section struct {
	field string
	set   bool
	host  string // as the section has it
	names []string
	load  func(name string, tree driver.Tree) (driver.Driver, error)
}

// loader makes a driver of a section.
type loader[C any] struct {
	name string
	load func(C, driver.Tree) (driver.Driver, error)
}

// load keeps a nil pointer of a driver from becoming an interface that is not nil.
func load[C any, D driver.Driver](name string, newDriver func(C, driver.Tree) (D, error)) loader[C] {
	return loader[C]{name, func(config C, tree driver.Tree) (driver.Driver, error) {
		d, err := newDriver(config, tree)
		if err != nil {
			return nil, err
		}
		return d, nil
	}}
}

// sectionOf describes a section. Common finds what all sections have.
func sectionOf[C any](c *Config, field string, p *C, common func(*C) (*string, *driver.Policy), drivers ...loader[C]) section {
	s := section{field: field, set: p != nil}
	if p != nil {
		host, _ := common(p)
		s.host = *host
	}
	for _, d := range drivers {
		s.names = append(s.names, d.name)
	}
	s.load = func(name string, tree driver.Tree) (driver.Driver, error) {
		var config C
		if p != nil {
			config = *p
		}
		host, policy := common(&config)
		*host, *policy = c.Host, policy.Or(c.Policy)
		return drivers[slices.Index(s.names, name)].load(config, tree)
	}
	return s
}

func (c *Config) sections() []section {
	return []section{
		{field: "fake", set: c.Fake, names: []string{Fake}, load: func(string, driver.Tree) (driver.Driver, error) { return fake.New(c.Host), nil }},
		sectionOf(c, "nvidia", c.NVIDIA, func(s *nvidia.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(NVIDIA, nvidia.New)),
		sectionOf(c, "fpga", c.FPGA, func(s *fpga.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(IntelFPGA, fpga.NewIntel), load(XilinxFPGA, fpga.NewXilinx), load(InspurFPGA, fpga.NewInspur)),
		sectionOf(c, "qat", c.QAT, func(s *qat.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(IntelQAT, qat.New)),
		sectionOf(c, "nic", c.NIC, func(s *nic.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(IntelNIC, nic.New)),
		sectionOf(c, "ssd", c.SSD, func(s *ssd.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(InspurSSD, ssd.New)),
		sectionOf(c, "ascend", c.Ascend, func(s *ascend.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(Ascend, ascend.New)),
		sectionOf(c, "hpts", c.HPTS, func(s *hpts.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(HPTS, hpts.New)),
		sectionOf(c, "pci", c.PCI, func(s *pci.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(PCI, pci.New)),
		sectionOf(c, "mdev", c.Mdev, func(s *mdev.Config) (*string, *driver.Policy) { return &s.Host, &s.Policy },
			load(Mdev, mdev.New)),
	}
}

func (c Config) enabled(sections []section) []string {
	if c.EnabledDrivers != nil {
		return c.EnabledDrivers
	}
	names := []string{}
	for _, s := range sections {
		if s.set {
			names = append(names, s.names...)
		}
	}
	return names
}

func (s section) checkHost(host string) error {
	if s.host != "" && s.host != host {
		return fmt.Errorf("%s.host: %q is not %q, the host of all", s.field, s.host, host)
	}
	return nil
}
