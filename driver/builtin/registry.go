package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// Registry has the drivers that enabled_drivers may name. The zero value has those of this module.
type Registry struct{ added []entryPoint }

// Load makes a driver for the tree of a host, which is nil for a host without hardware. The section is
// that of Config.Sections, or nil. The driver takes the name of the host from its argument.
type Load func(host string, section json.RawMessage, tree driver.Tree) (driver.Driver, error)

type entryPoint struct {
	name string
	load Load
}

// Add adds a driver from outside by the name of its entry point, such as "acme_npu_driver". The error
// wraps driver.ErrConfig, for a name that is empty or taken and for a missing function.
func (r *Registry) Add(name string, load Load) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: driver without a name", driver.ErrConfig)
	case slices.Contains(r.Names(), name):
		return fmt.Errorf("%w: driver %s exists already", driver.ErrConfig, name)
	case load == nil:
		return fmt.Errorf("%w: driver %s: nothing loads it", driver.ErrConfig, name)
	}
	r.added = append(slices.Clip(r.added), entryPoint{name, load})
	return nil
}

// Names lists the entry points of all drivers, those of this module first.
func (r *Registry) Names() []string {
	names := Names()
	for _, e := range r.added {
		names = append(names, e.name)
	}
	return names
}

// NeedsTree reports whether a driver reads a sysfs tree. A driver from outside may.
func (r *Registry) NeedsTree(name string) bool { return name != Fake && slices.Contains(Names(), name) }

// New loads the enabled drivers for a host's tree, in the order in which they are
// enabled. All faults are joined; each wraps driver.ErrConfig and names the field.
func (r *Registry) New(c Config, tree driver.Tree) ([]driver.Driver, error) {
	faults := r.checkEnabled(c)
	if c.Host == "" {
		faults = append(faults, errors.New("host: no host name"))
	}
	var drivers []driver.Driver
	sections := r.sections(c)
	enabled := c.enabled(sections)
	for i, name := range enabled {
		at := slices.IndexFunc(sections, func(s section) bool { return slices.Contains(s.names, name) })
		if at < 0 || slices.Contains(enabled[:i], name) {
			continue // a fault already
		}
		s := sections[at]
		if tree == nil && r.NeedsTree(name) {
			faults = append(faults, fmt.Errorf("enabled_drivers: %s needs a sysfs tree", name))
			continue
		}
		if err := s.checkHost(c.Host); err != nil {
			faults = append(faults, err)
			continue
		}
		d, err := s.load(name, tree)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", s.field, err))
			continue
		}
		drivers = append(drivers, d)
	}
	for i, err := range faults {
		if !errors.Is(err, driver.ErrConfig) {
			faults[i] = fmt.Errorf("%w: %w", driver.ErrConfig, err)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return drivers, nil
}

// sections returns the sections of all drivers, built-in and external.
func (r *Registry) sections(c Config) []section {
	list := c.sections()
	for _, e := range r.added {
		data, set := c.Sections[e.name]
		list = append(list, section{
			field: "sections." + e.name, set: set, names: []string{e.name},
			load: func(_ string, tree driver.Tree) (driver.Driver, error) {
				d, err := e.load(c.Host, data, tree)
				if err == nil && d == nil {
					err = errors.New("no driver is loaded")
				}
				return d, err
			},
		})
	}
	return list
}

// Enabled lists the drivers to load.
func (r *Registry) Enabled(c Config) []string { return c.enabled(r.sections(c)) }

// Check checks which drivers are loaded; their options are checked in New. The text of each
// error begins with the JSON path of the field: enabled_drivers[1], qat.host. A section of
// a driver that EnabledDrivers does not name is an error here, and none in New.
func (r *Registry) Check(c Config) []error {
	faults, sections := r.checkEnabled(c), r.sections(c)
	enabled := c.enabled(sections)
	for _, s := range sections {
		if s.set && !slices.ContainsFunc(s.names, func(name string) bool { return slices.Contains(enabled, name) }) {
			faults = append(faults, fmt.Errorf("%s: enabled_drivers does not name the driver: %s", s.field, strings.Join(s.names, ", ")))
		}
		if err := s.checkHost(c.Host); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

func (r *Registry) checkEnabled(c Config) (faults []error) {
	names := r.Names()
	for i, name := range c.EnabledDrivers {
		switch {
		case !slices.Contains(names, name):
			faults = append(faults, fmt.Errorf("enabled_drivers[%d]: unknown driver %q (known: %s)", i, name, strings.Join(names, ", ")))
		case slices.Contains(c.EnabledDrivers[:i], name):
			faults = append(faults, fmt.Errorf("enabled_drivers[%d]: %q occurs twice", i, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sections)) {
		if !slices.ContainsFunc(r.added, func(e entryPoint) bool { return e.name == name }) {
			faults = append(faults, fmt.Errorf("sections.%s: no such driver from outside", name))
		}
	}
	return faults
}
