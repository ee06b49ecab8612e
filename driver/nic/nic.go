package nic

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	vendorIntel = 0x8086

	productX710    = 0x1572
	productPlane   = 0x158a // of a backplane
	productXXV710  = 0x158b
	productVF      = 0x154c
	productHyperVF = 0x1571 // the same for guests of Hyper-V
)

// ports are the configured interfaces.
type ports map[string]port

// New returns the driver for a host's tree. The error wraps driver.ErrConfig.
func New(config Config, tree driver.Tree) (*driver.PCIDriver, error) {
	p, err := config.ports()
	if err != nil {
		return nil, err
	}
	listed, err := config.addresses()
	if err != nil {
		return nil, err
	}
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: "intel_nic", Host: config.Host, Policy: config.Policy, Claims: claims(),
		VirtualIDs:    func(vf, pf driver.Unit) bool { return virtualID(vf.Product) && !virtualID(pf.Product) },
		KernelDrivers: func(driver.Unit) []string { return kernelDrivers() },
		Vet: func(u driver.Unit) string {
			if len(listed) > 0 && !listed[u.Address] && (u.Physical == nil || !listed[u.Physical.Address]) {
				return "not among the device_addresses of the enabled types"
			}
			return vet(u, config.AllowedDrivers)
		},
		Device:   device,
		Subject:  p.subject,
		Complete: p.complete,
		Finish:   p.reportMissing,
	}, tree)
}

func claims() []driver.Claim {
	return []driver.Claim{
		{Vendor: vendorIntel, Product: productX710, Why: "Intel Ethernet Controller X710"},
		{Vendor: vendorIntel, Product: productPlane, Why: "Intel Ethernet Controller XXV710 for 25GbE backplane"},
		{Vendor: vendorIntel, Product: productXXV710, Why: "Intel Ethernet Controller XXV710"},
		{Vendor: vendorIntel, Product: productVF, Why: "Intel Ethernet Virtual Function 700 Series"},
		{Vendor: vendorIntel, Product: productHyperVF, Why: "Intel Ethernet Virtual Function 700 Series"},
	}
}

// reportMissing adds the configured interfaces that no card has to the report, unless they may be those
// of ports that guests have, which show none.
func (p ports) reportMissing(scan *driver.PCIScan) {
	hidden, missing := 0, slices.Sorted(maps.Keys(p))
	for _, u := range scan.Units {
		missing = slices.DeleteFunc(missing, func(name string) bool { return slices.Contains(u.Interfaces, name) })
		if !virtual(*u) && len(u.Interfaces) == 0 && !slices.Contains(kernelDrivers(), u.Driver) {
			hidden++
		}
	}
	if len(missing) <= hidden {
		return
	}
	for _, name := range missing {
		scan.Report.Problems = append(scan.Report.Problems, driver.Problem{File: "class/net/" + name,
			Err: fmt.Errorf("%w: interface %s is mapped, and no card of this driver has it", driver.ErrConfig, name)})
	}
}

// kernelDrivers are those of ports and virtual functions, the last by its former name.
func kernelDrivers() []string { return []string{"i40e", "iavf", "i40evf"} }

// vet refuses a port whose interface is not in the tree: it may be up in another network
// namespace. Virtual functions are made for guests.
func vet(u driver.Unit, allowed []string) string {
	if virtual(u) || len(u.Interfaces) > 0 || !slices.Contains(kernelDrivers(), u.Driver) || slices.Contains(allowed, u.Driver) {
		return ""
	}
	return fmt.Sprintf("bound to driver %s, and its network interface is not visible; it may be up in another network namespace", u.Driver)
}

// device is a port as upstream reports it.
func device(u driver.Unit) driver.Device {
	return driver.Device{
		Vendor:          "0x" + u.VendorID(),
		Model:           "miss_model_info",
		Type:            driver.TypeNIC,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "0x%s"}`, u.ProductID()),
		VendorBoardInfo: "miss_vb_info",
	}
}

// virtual reports whether a function is a virtual one; without a link its id decides.
func virtual(u driver.Unit) bool {
	return u.IsVirtual || virtualID(u.Product)
}

func virtualID(product uint16) bool { return product == productVF || product == productHyperVF }

// owner is the port of a virtual function, else the function itself.
func owner(u driver.Unit) driver.Unit {
	if u.Physical != nil {
		return *u.Physical
	}
	return u
}

// of finds what is configured for a function: a virtual one is on the network of its
// physical function.
func (p ports) of(u driver.Unit) port {
	for _, name := range owner(u).Interfaces {
		if found, ok := p[name]; ok {
			return found
		}
	}
	return port{}
}

// traits returns the traits by which device profiles select ports.
func (p ports) traits(u driver.Unit) []string {
	kind, port := "PF", p.of(u)
	if virtual(u) {
		kind = "VF"
	}
	names := append([]string{kind}, port.functions...)
	if port.network != "" {
		names = append(names, port.network)
	}
	for i, name := range names {
		names[i], _ = driver.CustomName(name) // checked with the configuration
	}
	return names
}

// subject names the port and its virtual functions alike.
func (p ports) subject(u driver.Unit) driver.Subject {
	card, traits := u.Card(), p.traits(u)
	s := driver.Subject{
		Type: driver.TypeNIC, Vendor: "intel", ProductID: card.ProductID(),
		Shipped: traits, ShippedClass: "CUSTOM_NIC", Always: traits,
	}
	switch card.Product {
	case productX710:
		s.Product = "X710"
	case productPlane, productXXV710:
		s.Product = "XXV710"
	}
	return s
}

// complete adds the field of the attach handle that the ports of guests are bound with. A port
// without an interface may be a mapped one that a guest has.
func (p ports) complete(u driver.Unit, d *driver.Deployable) {
	d.Hidden = len(p) > 0 && len(owner(u).Interfaces) == 0
	if network := p.of(u).network; network != "" {
		d.AttachHandles[0].Info["physical_network"] = network
	}
}
