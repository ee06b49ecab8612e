package driver

import (
	"fmt"
	"slices"
	"strconv"
)

const (
	iommuGroupsDir = "kernel/iommu_groups"
	baseBridge     = 0x06
)

// groupUse says which other function of a function's IOMMU group is still in the
// host's use, or "". The hardware keeps functions of one group apart from others and not
// from each other, so a guest gets none of them while the host drives one. Bridges do not
// count, nor do functions bound to no driver, to vfio-pci or to pci-stub. The problem is
// one with the list of the group.
func groupUse(tree *View, f PCIFunction, s PCIState) (string, error) {
	if s.IOMMUGroup == nil {
		return "", nil
	}
	dir := iommuGroupsDir + "/" + strconv.Itoa(*s.IOMMUGroup) + "/devices"
	names, err := tree.Names(dir) // a captured tree may lack it
	if err != nil {
		return "", Problem{File: dir, Err: err}
	}
	for _, name := range names {
		address, err := ParsePCIAddress(name)
		if err != nil || address == f.Address { // groups hold devices that are not on PCI, too
			continue
		}
		if reason := siblingUse(tree, address); reason != "" {
			return fmt.Sprintf("IOMMU group %d is shared with %s, which is %s", *s.IOMMUGroup, address, reason), nil
		}
	}
	return "", nil
}

// siblingUse says how the host uses a function of the same group, or "". One that cannot
// be read counts as in use; the problem is reported by the driver it belongs to.
func siblingUse(tree *View, address PCIAddress) string {
	f, err := tree.readFunction(address.String())
	if err != nil {
		return fmt.Sprintf("not understood: %v", problemOf("", err).Err)
	}
	if f.DeviceClass()>>8 == baseBridge {
		return ""
	}
	s, problems := tree.PCIState(f)
	if len(problems) > 0 {
		return fmt.Sprintf("not understood: %v", problems[0].Err)
	}
	if reason := s.hostUse(f); reason != "" {
		return reason
	}
	if slices.Contains([]string{"", driverVFIO, "pci-stub"}, s.Driver) {
		return ""
	}
	return "bound to driver " + s.Driver
}
