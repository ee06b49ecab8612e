package pci

import (
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// virtual recognizes what may be a virtual function of another by vendor and class, and by its kernel
// driver or its id.
func virtual(vf, pf driver.Unit) bool {
	return vf.Vendor == pf.Vendor && vf.DeviceClass() == pf.DeviceClass() && looksVirtual(vf) && !looksVirtual(pf)
}

// looksVirtual knows the drivers of virtual functions by their name: igbvf, iavf, qat_c62xvf.
func looksVirtual(u driver.Unit) bool {
	return strings.HasSuffix(u.Driver, "vf") || slices.Contains(virtualIDs[u.Vendor], u.Product)
}

// virtualIDs are ids of virtual functions, by vendor, as in pci.ids.
var virtualIDs = map[uint16][]uint16{
	0x1002: {0x74b5, 0x74b6, 0x74bc, 0x74bd}, // Instinct
	0x15b3: {0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e},
	0x8086: {
		0x10ca, 0x10ed, 0x1515, 0x1520, 0x152d, 0x152e, 0x152f, 0x1530, 0x154c, 0x1564, 0x1565, 0x1571, 0x15a8, 0x15a9, 0x15b4, 0x15c5, 0x1889, 0x37cd, // network
		0x0443, 0x19e3, 0x37c9, 0x4941, 0x4943, 0x4945, 0x4947, 0x4949, 0x6f55, // QuickAssist
		0x09c5, 0x0b2c, 0xbcbf, 0xbcc1, // FPGA
	},
}
