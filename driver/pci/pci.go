package pci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
)

const (
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
	// Policy has the options that all drivers have. An entry of the whitelist admits a function
	// with any kernel driver; AllowedDrivers are only for functions whose network interfaces are
	// all in other network namespaces.
	driver.Policy
}

// New returns the driver for a host's tree. The error wraps driver.ErrConfig and names the
// entry of the whitelist. The driver claims what the entries name, and reads nothing without
// any.
func New(config Config, tree driver.Tree) (*driver.PCIDriver, error) {
	entries, err := config.PassthroughWhitelist.matchers()
	if err != nil {
		return nil, err
	}
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: "pci", Host: config.Host, Policy: config.Policy, Claims: entries.claims(), Separate: true,
		KernelDrivers: func(u driver.Unit) []string { return []string{u.Driver} },
		VirtualIDs:    virtual,
		Vet:           vet,
		Device:        device,
		Subject:       subject,
		Prepare:       entries.prepare,
	}, tree)
}

// claims has one claim for each entry of the whitelist.
func (m matchers) claims() []driver.Claim {
	var claims []driver.Claim
	for i, entry := range m {
		vendor, _ := strconv.ParseUint(entry.vendor, 16, 16) // zero for any
		product, _ := strconv.ParseUint(entry.product, 16, 16)
		claims = append(claims, driver.Claim{
			Vendor: uint16(vendor), Product: uint16(product), Why: fmt.Sprintf("passthrough_whitelist entry %d", i),
		})
	}
	return claims
}

// prepare narrows the claims down to what the entries admit at present.
func (m matchers) prepare(_ context.Context, view *driver.View, spec *driver.PCISpec) error {
	interfaces, problems, err := m.interfaces(view)
	if err != nil {
		return err
	}
	spec.Own = func(f driver.PCIFunction) bool { return m.admit(f, interfaces) >= 0 }
	spec.Complete = func(u driver.Unit, d *driver.Deployable) {
		d.DriverName = vendorOf(u)
		if entry := m.admit(u.PCIFunction, interfaces); entry >= 0 && m[entry].unmanaged {
			d.AttachHandles[0].Info[driver.FieldManaged] = "false"
		}
	}
	spec.Finish = func(scan *driver.PCIScan) { scan.Report.Problems = append(scan.Report.Problems, problems...) }
	return nil
}

// interfaces finds the functions of the network interfaces that the whitelist names. One that
// is not there is a problem, one that cannot be read an error.
func (m matchers) interfaces(view *driver.View) (map[string]driver.PCIAddress, []driver.Problem, error) {
	found := make(map[string]driver.PCIAddress)
	var problems []driver.Problem
	for _, entry := range m {
		if entry.devName == "" {
			continue
		}
		link := path.Join(netDir, entry.devName, "device")
		address, err := view.LinkedFunction(link)
		switch {
		case file.Unread(err) && !errors.Is(err, driver.ErrPCIAddress):
			return nil, nil, fmt.Errorf("%s: %w", link, err)
		case err != nil:
			err = fmt.Errorf("%w: devname %s has no PCI function: %w", driver.ErrConfig, entry.devName, err)
			problems = append(problems, driver.Problem{File: link, Err: err})
			continue
		}
		found[entry.devName] = address
	}
	return found, problems, nil
}

func vet(u driver.Unit) string {
	if u.DeviceClass()>>8 == baseBridge {
		return "a bridge cannot be given to a guest"
	}
	return ""
}

// device is a function as upstream reports it: always as a GPU.
func device(u driver.Unit) driver.Device {
	return driver.Device{
		Vendor:          u.VendorID(),
		Model:           u.ProductID(),
		Type:            driver.TypeGPU,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": null}`, u.ProductID()),
		VendorBoardInfo: "miss_vb_info",
	}
}

func subject(u driver.Unit) driver.Subject {
	shipped := []string{driver.TraitOwnerCyborg}
	if vendorName(u.Vendor) != "" {
		shipped = append(shipped, "CUSTOM_PCI_"+vendorName(u.Vendor))
	}
	return driver.Subject{
		Type: driver.TypeGPU, Vendor: vendorOf(u), ProductID: u.ProductID(),
		Shipped: append(shipped, "CUSTOM_PCI_PRODUCT_ID_"+strings.ToUpper(u.ProductID())), ShippedClass: "CUSTOM_PCI",
	}
}

// vendorOf is the name of the vendor, or its id.
func vendorOf(u driver.Unit) string {
	return cmp.Or(vendorName(u.Vendor), strings.ToUpper(u.VendorID()))
}

// vendorName knows the vendors that upstream's driver knows, and AMD, in the form of a trait.
func vendorName(vendor uint16) string {
	if slices.Contains([]uint16{0x1002, 0x10de, 0x102b, 0x8086, 0x1bd4, 0x10ee, 0x19e5}, vendor) {
		return strings.ToUpper(pciid.Word(vendor))
	}
	return ""
}
