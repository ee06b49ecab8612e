package discover

import (
	"bytes"
	"path"
	"strconv"

	"github.com/gocyborg/gocyborg/driver"
)

// noReset warns of a function that keeps its state from one guest to the next.
const noReset = "the kernel cannot reset it between two guests: its reset_method is empty"

// addPlaces reads where the offered devices are in the machine, IOMMU group and NUMA node, and their
// health. What cannot be read is omitted.
func (d *discovery) addPlaces(tree driver.Tree) {
	view := driver.NewView(tree)
	_, err := view.ReadDir("kernel/iommu_groups")
	d.groupsKnown = err == nil
	for i := range d.Devices {
		f := &d.Devices[i]
		f.NUMANode = nodeOf(view, f.Address)
		f.addHealth(view)
		for _, h := range f.Handles {
			at, err := driver.PCIAddressOf(h.Info)
			if err != nil || h.Type != driver.HandlePCI {
				continue
			}
			if f.IOMMUGroup == nil {
				f.IOMMUGroup = groupOf(view, at.String())
			}
			if text, err := view.ReadFile(driver.PCIFunction{Address: at}.Dir() + "/reset_method"); err == nil && len(bytes.TrimSpace(text)) == 0 {
				f.Warnings = append(f.Warnings, noReset)
			}
		}
	}
}

func (f *foundDevice) addHealth(view *driver.View) {
	at, err := driver.ParsePCIAddress(f.Address)
	if err != nil {
		return
	}
	health, _ := driver.ReadHealth(view, at)
	f.Health = &health
	f.Warnings = append(f.Warnings, health.Troubles()...)
}

func groupOf(view *driver.View, address string) *int {
	target, err := view.Readlink("bus/pci/devices/" + address + "/iommu_group")
	if err != nil {
		return nil
	}
	return nonNegative(path.Base(target))
}

// nodeOf is the NUMA node of a device; the kernel writes -1 for none.
func nodeOf(view *driver.View, address string) *int {
	text, err := view.ReadText("bus/pci/devices/" + address + "/numa_node")
	if err != nil {
		return nil
	}
	return nonNegative(text)
}

// nonNegative is the number of a text, nil for another text and below zero.
func nonNegative(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// groupText is the IOMMU group in a table. A mediated device gets one when it is made.
func (f foundDevice) groupText(known bool) string {
	switch {
	case len(f.Handles) > 0 && f.Handles[0].Type == driver.HandleMDEV:
		return "own"
	case known:
		return numberOr(f.IOMMUGroup, "none")
	}
	return numberOr(f.IOMMUGroup, "unknown")
}

func numberOr(n *int, none string) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(*n)
}
