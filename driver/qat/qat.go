package qat

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

const vendorIntel = 0x8086

// Config is the configuration of the driver. Upstream has no options for it.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host; upstream takes the name of
	// the operating system).
	Host string `json:"host"`
	driver.Policy
}

// New returns the driver for a host's tree. The error wraps driver.ErrConfig.
func New(config Config, tree driver.Tree) (*driver.PCIDriver, error) {
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: "intel_qat", Host: config.Host, Policy: config.Policy, Claims: claims(),
		VirtualIDs: func(vf, pf driver.Unit) bool {
			return slices.ContainsFunc(families(), func(f family) bool { return vf.Product == f.virtual && pf.Product == f.physical })
		},
		KernelDrivers: func(u driver.Unit) []string { return familyOf(u).kernel },
		Device:        device,
		Subject:       subject,
	}, tree)
}

// device is an accelerator as upstream reports it.
func device(u driver.Unit) driver.Device {
	return driver.Device{
		Vendor:          "0x" + u.VendorID(),
		Model:           "miss_model_info",
		Type:            driver.TypeQAT,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "0x%s"}`, u.ProductID()),
		VendorBoardInfo: "miss_vb_info",
	}
}

// subject names a physical function and the virtual ones of it alike. Upstream's driver
// reports no traits.
func subject(u driver.Unit) driver.Subject {
	f := familyOf(u)
	return driver.Subject{
		Type: driver.TypeQAT, Vendor: "intel", Product: f.word, ProductID: fmt.Sprintf("%04x", f.physical),
		ShippedClass: "CUSTOM_QAT",
	}
}

// family is one generation of accelerators.
type family struct {
	word              string // as written in traits
	physical, virtual uint16
	kernel            []string // drivers of its functions
}

// families are listed with their source in the package's comment.
func families() []family {
	const vfio = "qat_vfio_pci" // the kernel's variant of vfio-pci, which can migrate
	return []family{
		{"DH895XCC", 0x0435, 0x0443, []string{"dh895xcc", "dh895xccvf"}},
		{"C62X", 0x37c8, 0x37c9, []string{"c6xx", "c6xxvf"}},
		{"C3XXX", 0x19e2, 0x19e3, []string{"c3xxx", "c3xxxvf"}},
		{"4XXX", 0x4940, 0x4941, []string{"4xxx", "4xxxvf", vfio}},
		{"401XX", 0x4942, 0x4943, []string{"4xxx", "4xxxvf", vfio}},
		{"402XX", 0x4944, 0x4945, []string{"4xxx", "4xxxvf", vfio}},
		{"420XX", 0x4946, 0x4947, []string{"420xx", "420xxvf", vfio}},
		{"6XXX", 0x4948, 0x4949, []string{"6xxx", "6xxxvf", vfio}},
	}
}

// familyOf finds the family of a function. A virtual function of an id that is not in
// the table is of the family of its physical function.
func familyOf(u driver.Unit) family {
	for _, f := range families() {
		if u.Product == f.physical || u.Product == f.virtual {
			return f
		}
	}
	if u.Physical != nil {
		return familyOf(*u.Physical)
	}
	return family{word: u.ProductID(), physical: u.Product}
}

func claims() []driver.Claim {
	var list []driver.Claim
	for _, f := range families() {
		list = append(list,
			driver.Claim{Vendor: vendorIntel, Product: f.physical, Why: "Intel QuickAssist " + f.word},
			driver.Claim{Vendor: vendorIntel, Product: f.virtual, Why: "Intel QuickAssist " + f.word + ", virtual function"})
	}
	return list
}
