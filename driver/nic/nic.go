package nic

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name          = "intel_nic"
	vendorIntel   = 0x8086
	resourceClass = "CUSTOM_NIC"

	productX710    = 0x1572
	productXXV710  = 0x158b
	productVF      = 0x154c
	productHyperVF = 0x1571 // the same for guests of Hyper-V
)

// Driver finds the network cards of one host.
type Driver struct {
	*driver.PCIDriver
	config Config
	ports  map[string]port // by interface
}

// New returns the driver for a host's tree. The error wraps ErrConfig.
func New(config Config, tree driver.Tree) (*Driver, error) {
	if config.Host == "" {
		return nil, fmt.Errorf("%w: no host name", ErrConfig)
	}
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	ports, err := config.ports()
	if err != nil {
		return nil, err
	}
	d := &Driver{config: config, ports: ports}
	d.PCIDriver = driver.NewPCIDriver(driver.PCIOffer{
		Driver:     name,
		Host:       config.Host,
		Policy:     config.Policy,
		Claims:     claims(),
		Virtual:    func(vf, pf driver.PCIFunction) bool { return virtualID(vf.Product) && !virtualID(pf.Product) },
		Kernel:     func(driver.Unit) []string { return kernelDrivers() },
		Vet:        d.vet,
		Device:     device,
		Attributes: d.attributes,
		Info:       d.info,
	}, tree)
	return d, nil
}

func claims() []driver.Claim {
	return []driver.Claim{
		{Vendor: vendorIntel, Product: productX710, Why: "Intel Ethernet Controller X710"},
		{Vendor: vendorIntel, Product: productXXV710, Why: "Intel Ethernet Controller XXV710"},
		{Vendor: vendorIntel, Product: productVF, Why: "Intel Ethernet Virtual Function 700 Series"},
		{Vendor: vendorIntel, Product: productHyperVF, Why: "Intel Ethernet Virtual Function 700 Series"},
	}
}

// Discover reports the ports present. The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	return d.DiscoverIn(ctx, driver.NewView(d.Tree()))
}

// DiscoverIn is Discover on a view of the tree.
func (d *Driver) DiscoverIn(ctx context.Context, view driver.Tree) (driver.Report, error) {
	seen := make(map[string]bool)
	offer := d.Offer()
	offer.See = func(u driver.Unit) {
		for _, name := range u.Interfaces {
			seen[name] = true
		}
	}
	report, err := offer.Discover(ctx, view)
	if err != nil {
		return driver.Report{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(d.ports)) {
		if !seen[name] {
			report.Problems = append(report.Problems, driver.Problem{File: "class/net/" + name,
				Err: fmt.Errorf("%w: interface %s is mapped, and no card of this driver has it", ErrConfig, name)})
		}
	}
	return report, nil
}

// kernelDrivers are those of ports and virtual functions, the last by its former name.
func kernelDrivers() []string { return []string{"i40e", "iavf", "i40evf"} }

// vet does not take a port for free whose interface is not to be seen: it may be up in
// another network namespace, or the tree lacks it. Virtual functions are made for guests.
func (d *Driver) vet(u driver.Unit) string {
	if virtual(u) || len(u.Interfaces) > 0 || !slices.Contains(kernelDrivers(), u.Driver) || slices.Contains(d.config.AllowedDrivers, u.Driver) {
		return ""
	}
	return fmt.Sprintf("bound to driver %s, and its network interface is not to be seen: it may be up in another network namespace", u.Driver)
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

// virtual reports whether a function is a virtual one; where no link tells, its id does.
func virtual(u driver.Unit) bool {
	return u.IsVirtual || virtualID(u.Product)
}

func virtualID(product uint16) bool { return product == productVF || product == productHyperVF }

// port finds what is configured for a function: a virtual one is on the network of its
// physical function.
func (d *Driver) port(u driver.Unit) port {
	if u.Physical != nil {
		u = *u.Physical
	}
	for _, name := range u.Interfaces {
		if p, ok := d.ports[name]; ok {
			return p
		}
	}
	return port{}
}

// traits are those that device profiles choose ports by.
func (d *Driver) traits(u driver.Unit) ([]string, error) {
	names := []string{"PF"}
	if virtual(u) {
		names = []string{"VF"}
	}
	p := d.port(u)
	names = append(names, p.functions...)
	if p.network != "" {
		names = append(names, p.network)
	}
	for i, each := range names {
		var err error
		if names[i], err = driver.CustomName(each); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (d *Driver) attributes(u driver.Unit) ([]driver.Attribute, error) {
	traits, err := d.traits(u)
	if err != nil {
		return nil, err
	}
	class, all, err := d.config.Names(subject(u, traits))
	if err != nil {
		return nil, err
	}
	for _, trait := range traits {
		if !slices.Contains(all, trait) {
			all = append(all, trait)
		}
	}
	return driver.Attributes(class, all...), nil
}

// subject names the port and its virtual functions alike.
func subject(u driver.Unit, shipped []string) driver.Subject {
	if u.Physical != nil {
		u.PCIFunction = u.Physical.PCIFunction
	}
	s := driver.Subject{
		Type: driver.TypeNIC, Vendor: driver.VendorWord(vendorIntel), ProductID: u.ProductID(),
		Shipped: shipped, ShippedClass: resourceClass,
	}
	switch u.Product {
	case productX710:
		s.Product = "X710"
	case productXXV710:
		s.Product = "XXV710"
	}
	return s
}

// info is the field of the attach handle that the ports of guests are bound with.
func (d *Driver) info(u driver.Unit) driver.Info {
	if network := d.port(u).network; network != "" {
		return driver.Info{"physical_network": network}
	}
	return nil
}
