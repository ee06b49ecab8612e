package simcloud

import (
	"cmp"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
)

// drivers loads the drivers of the model.
func (m *machine) drivers() ([]driver.Driver, error) {
	if m.host.Drivers == nil {
		return nil, nil
	}
	c := *m.host.Drivers
	c.Host = m.host.Name
	if m.dir == nil && c.Mounts == nil {
		c.Mounts = []string{} // synthetic disks are mounted if the model says so
	}
	loaded, err := builtin.New(c, m.tree)
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
	for _, err := range d.Check() {
		c.fault("", path+"."+err.Error())
	}
	if err := d.Policy.Check(); err != nil {
		c.fault(path, err.Error())
	}
	for _, name := range d.Enabled() {
		if h.Sysfs == nil && name != builtin.Fake {
			c.fault(path, fmt.Sprintf("the driver %s reads a sysfs, and the host has none", name))
		}
	}
}
