package driver

import "slices"

// Address is where a device is. PCI is one kind of place; a device elsewhere has a name.
type Address struct {
	// Kind is the type of the control path, ControlPathPCI or another.
	Kind string
	// PCI is set for ControlPathPCI.
	PCI PCIAddress
	// Name is set for other kinds: "mtty" below class/mdev_bus.
	Name string
}

// String returns the PCI address as the kernel writes it, or the name.
func (a Address) String() string {
	if a.Kind == ControlPathPCI {
		return a.PCI.String()
	}
	return a.Name
}

// ControlPath returns the control path of the device at the address.
func (a Address) ControlPath() ControlPath {
	if a.Kind == ControlPathPCI {
		return a.PCI.ControlPath()
	}
	return ControlPath{Type: a.Kind, Info: Info{keyParent: a.Name}}
}

// ParseAddress reads what String returns: a PCI address, or the name of a device that is not
// on PCI and that mediated devices are made on.
func ParseAddress(text string) Address {
	if at, err := ParsePCIAddress(text); err == nil {
		return Address{Kind: ControlPathPCI, PCI: at}
	}
	return Address{Kind: ControlPathMdevParent, Name: text}
}

// Address returns the address of the control path. One that is neither a PCI address nor
// a parent has its information for a name, so that addresses stay distinct.
func (c ControlPath) Address() Address {
	a := addressOf(c.Info)
	if a.Kind == "" {
		a.Kind = c.Type
	}
	return a
}

// addressOf understands the information of control paths and of attach handles.
func addressOf(info Info) Address {
	if name := info[keyParent]; name != "" {
		return Address{Kind: ControlPathMdevParent, Name: name}
	}
	if at, err := PCIAddressOf(info); err == nil {
		return Address{Kind: ControlPathPCI, PCI: at}
	}
	return Address{Name: info.Key()}
}

// Addresses are the places that a device occupies: the parts that guests get, and its control
// path. A TEST_PCI handle occupies nothing, and neither does a device with only such handles.
func (d Device) Addresses() []Address {
	var list []Address
	real := len(d.Deployables) == 0
	for _, p := range d.Deployables {
		real = real || len(p.AttachHandles) == 0
		for _, h := range p.AttachHandles {
			if h.Type == HandleTestPCI {
				continue
			}
			real = true
			if at := addressOf(h.Info); !slices.Contains(list, at) {
				list = append(list, at)
			}
		}
	}
	if at := d.ControlPath.Address(); real && !slices.Contains(list, at) {
		list = append(list, at)
	}
	return list
}

// Addresses are the places in the report: of devices, of skipped hardware and of problems.
func (r Report) Addresses() map[string]bool {
	set := make(map[string]bool)
	for _, d := range r.Devices {
		for _, at := range d.Addresses() {
			set[at.String()] = true
		}
	}
	for _, l := range r.LeftOut {
		set[l.Address] = true
	}
	for _, p := range r.Problems {
		set[p.Address] = true
	}
	return set
}
