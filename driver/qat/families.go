package qat

import "github.com/gocyborg/gocyborg/driver"

// family is one generation of accelerators.
type family struct {
	word              string // as it stands in traits
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
