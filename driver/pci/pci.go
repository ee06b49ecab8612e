package pci

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name       = "pci"
	baseBridge = 0x06
	netDir     = "class/net"
)

// Config is the configuration of the driver. Upstream's option is named with each field.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	// PassthroughWhitelist lists what is offered ([pci] passthrough_whitelist). An empty
	// one offers nothing.
	PassthroughWhitelist Whitelist `json:"passthrough_whitelist,omitempty"`
	// Policy has the options that all drivers have. AllowedDrivers says nothing here: an
	// entry of the whitelist admits a function whatever kernel driver is bound to it.
	driver.Policy
}

// Driver offers the whitelisted PCI functions of one host.
type Driver struct {
	driver.TreeReader
	config   Config
	matchers []matcher
}

var _ driver.Claimer = (*Driver)(nil)

// New returns the driver for a host's tree. The error wraps driver.ErrConfig and names the
// entry of the whitelist.
func New(config Config, tree driver.Tree) (*Driver, error) {
	if err := driver.CheckConfig(config.Host, config.Policy); err != nil {
		return nil, err
	}
	matchers, err := config.PassthroughWhitelist.matchers()
	if err != nil {
		return nil, err
	}
	d := &Driver{config: config, matchers: matchers}
	d.TreeReader = driver.NewTreeReader(name, tree, d.discover)
	return d, nil
}

// Claims implements driver.Claimer: one claim for each entry of the whitelist.
func (d *Driver) Claims() []driver.Claim {
	claims := make([]driver.Claim, 0, len(d.matchers))
	for i, m := range d.matchers {
		vendor, _ := driver.ParseHex(m.vendor, 4) // zero for the wildcard
		product, _ := driver.ParseHex(m.product, 4)
		claims = append(claims, driver.Claim{
			Vendor: uint16(vendor), Product: uint16(product), Why: fmt.Sprintf("passthrough_whitelist entry %d", i),
		})
	}
	return claims
}

// discover reads nothing without a whitelist.
func (d *Driver) discover(ctx context.Context, view driver.Tree) (driver.Report, error) {
	if len(d.matchers) == 0 {
		return driver.Report{}, ctx.Err()
	}
	interfaces, problems := d.interfaces(view)
	admits := func(f driver.PCIFunction) bool { return d.admits(f, interfaces) }
	scan, err := driver.ScanPCI(ctx, view, name, d.config.Policy, admits)
	if err != nil {
		return driver.Report{}, err
	}
	scan.Report.Problems = append(scan.Report.Problems, problems...)
	for _, u := range scan.Units {
		switch {
		case u.Unreadable, !admits(u.PCIFunction): // the latter is a virtual function of a whitelisted one
		case u.DeviceClass()>>8 == baseBridge:
			scan.LeaveOut(u, "a bridge cannot be given to a guest")
		case scan.Assignable(u, u.Driver):
			d.offer(scan, u)
		}
	}
	return scan.Result(), nil
}

func (d *Driver) admits(f driver.PCIFunction, interfaces map[string]driver.PCIAddress) bool {
	return slices.ContainsFunc(d.matchers, func(m matcher) bool { return m.fits(f, interfaces) })
}

// interfaces finds the functions of the network interfaces that the whitelist names.
func (d *Driver) interfaces(view driver.Tree) (map[string]driver.PCIAddress, []driver.Problem) {
	found := make(map[string]driver.PCIAddress)
	var problems []driver.Problem
	for _, m := range d.matchers {
		if m.devName == "" {
			continue
		}
		file := path.Join(netDir, m.devName, "device")
		target, err := view.Readlink(file)
		var address driver.PCIAddress
		if err == nil {
			address, err = driver.ParsePCIAddress(path.Base(target))
		}
		if err != nil {
			err = fmt.Errorf("%w: devname %s has no PCI function: %w", driver.ErrConfig, m.devName, err)
			problems = append(problems, driver.Problem{File: file, Err: err})
			continue
		}
		found[m.devName] = address
	}
	return found, problems
}

// offer reports a function as upstream does: as a GPU, whatever it is.
func (d *Driver) offer(scan *driver.PCIScan, u *driver.Unit) {
	vendor := cmp.Or(vendorName(u.Vendor), strings.ToUpper(u.VendorID()))
	shipped := []string{driver.TraitOwnerCyborg}
	if vendorName(u.Vendor) != "" {
		shipped = append(shipped, "CUSTOM_PCI_"+vendor)
	}
	class, traits, err := d.config.Names(driver.Subject{
		Type: driver.TypeGPU, Vendor: vendor, ProductID: u.ProductID(),
		Shipped: append(shipped, "CUSTOM_PCI_PRODUCT_ID_"+strings.ToUpper(u.ProductID())), ShippedClass: "CUSTOM_PCI",
	})
	if err != nil {
		scan.Problem(u, err)
		return
	}
	scan.Offer(u, driver.Device{
		Vendor:          u.VendorID(),
		Model:           u.ProductID(),
		Type:            driver.TypeGPU,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": null}`, u.ProductID()),
		VendorBoardInfo: "miss_vb_info",
		ControlPath:     u.Address.ControlPath(),
		Deployables: []driver.Deployable{{
			Name:            d.config.Host + "_" + u.Address.String(),
			NumAccelerators: 1,
			DriverName:      vendor,
			Class:           class,
			Traits:          traits,
			AttachHandles:   []driver.AttachHandle{{Type: driver.HandlePCI, Info: u.Address.Info()}},
		}},
	})
}

// vendorName knows the vendors that upstream's driver knows, in the form of a trait.
func vendorName(vendor uint16) string {
	switch vendor {
	case 0x10de, 0x102b, 0x8086, 0x1bd4, 0x10ee, 0x19e5:
		return strings.ToUpper(driver.VendorWord(vendor))
	}
	return ""
}
