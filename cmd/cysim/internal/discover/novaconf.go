package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/internal/devicespec"
	"github.com/gocyborg/gocyborg/internal/osloconf"
)

// novaClaims are the devices that a nova.conf assigns to Nova.
type novaClaims struct {
	specs []novaSpec
	mdevs []novaMdev
}

// novaSpec is one entry of [pci] device_spec.
type novaSpec struct {
	pci.Spec
	name string // in messages
}

// novaMdev is one of [devices] enabled_mdev_types.
type novaMdev struct {
	typ  string
	name string // the claiming option, in messages
	// addresses of the devices that it is created on; nil means every device that supports
	// it.
	addresses []driver.PCIAddress
}

// parseNovaConf reads the device options of a nova.conf: [pci] device_spec, also by its
// former names, and [devices] enabled_mdev_types with [mdev_TYPE] device_addresses.
func parseNovaConf(data []byte) (*novaClaims, error) {
	conf, err := osloconf.Parse(data)
	if err != nil {
		return nil, err
	}
	n := &novaClaims{}
	return n, errors.Join(n.addSpecs(conf), n.addMdevs(conf))
}

// addSpecs reads the entries, each a JSON object or a list of objects.
func (n *novaClaims) addSpecs(conf osloconf.File) error {
	entries := map[string]int{} // by option
	for name, value := range devicespec.OfNova(conf.All) {
		objects, err := devicespec.Entries(value)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", name, value, err)
		}
		for _, object := range objects {
			entry := fmt.Sprintf("%s entry %d", name, entries[name])
			spec, err := novaSpecOf(object)
			if err != nil {
				return fmt.Errorf("%s: %w", entry, err)
			}
			n.specs = append(n.specs, novaSpec{spec, entry})
			entries[name]++
		}
	}
	return nil
}

// novaSpecOf reads the keys that select devices. Other keys are tags, which say how the
// device is used, such as physical_network.
func novaSpecOf(entry json.RawMessage) (spec pci.Spec, err error) {
	if err := json.Unmarshal(entry, &spec); err != nil {
		return spec, err
	}
	return spec, pci.Whitelist{spec}.Check()
}

// addMdevs follows nova-compute: if one of several types has no addresses, only the first
// type is created, on every device that supports it.
func (n *novaClaims) addMdevs(conf osloconf.File) error {
	types := conf.List("devices", "enabled_mdev_types")
	if len(types) == 0 {
		types = conf.List("devices", "enabled_vgpu_types")
	}
	for _, typ := range types {
		section := "mdev_" + typ
		texts := conf.List(section, "device_addresses")
		if len(texts) == 0 {
			section = "vgpu_" + typ
			texts = conf.List(section, "device_addresses")
		}
		if len(texts) == 0 {
			n.mdevs = []novaMdev{{typ: types[0], name: "[devices] enabled_mdev_types: " + types[0]}}
			return nil
		}
		m := novaMdev{typ: typ, name: "[" + section + "] device_addresses"}
		for _, text := range texts {
			address, err := driver.ParsePCIAddress(text)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			m.addresses = append(m.addresses, address)
		}
		n.mdevs = append(n.mdevs, m)
	}
	return nil
}

// resolve replaces the names of network interfaces by their addresses. An interface that
// does not exist selects nothing.
func (n *novaClaims) resolve(view *driver.View) {
	var found []novaSpec
	for _, s := range n.specs {
		if s.DevName != "" {
			address, err := view.LinkedFunction("class/net/" + s.DevName + "/device")
			if err != nil {
				continue
			}
			s.Address = &pci.AddressPattern{Glob: address.String()}
			s.name += " (devname " + s.DevName + ")"
			s.DevName = ""
		}
		found = append(found, s)
	}
	n.specs = found
}

// claims names the entry by which Nova claims a function, or "". resolve must have been
// called.
func (n *novaClaims) claims(f driver.PCIFunction, s driver.PCIState) string {
	for _, spec := range n.specs {
		if spec.admits(f, s) {
			return spec.name
		}
	}
	for _, m := range n.mdevs {
		if slices.Contains(m.addresses, f.Address) || m.addresses == nil && slices.Contains(s.MdevTypes, m.typ) {
			return m.name
		}
	}
	return ""
}

// admits reports whether the entry selects a function. The full address of a physical
// function selects its virtual functions, too.
func (s novaSpec) admits(f driver.PCIFunction, state driver.PCIState) bool {
	at, err := pci.Whitelist{s.Spec}.Match(f)
	if err == nil && at >= 0 {
		return true
	}
	exact, ok := s.exact()
	if !ok || exact.String() != state.VirtualOf {
		return false
	}
	f.Address = exact
	at, err = pci.Whitelist{s.Spec}.Match(f)
	return err == nil && at >= 0
}

// exact returns the address of an entry that names a single one.
func (s novaSpec) exact() (driver.PCIAddress, bool) {
	if s.Address == nil {
		return driver.PCIAddress{}, false
	}
	address, err := driver.ParsePCIAddress(s.Address.Glob)
	return address, err == nil
}
