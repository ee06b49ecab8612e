package simcloud

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/internal/nova"
)

// Nova is the hardware of a host that nova-compute offers without Cyborg. Only one of the
// two may offer a device: the agent refuses devices that are listed here.
type Nova struct {
	// VGPUs are cards that nova-compute divides ([devices] enabled_mdev_types):
	// providers HOST_pci_0000_3b_00_0 with an inventory of VGPU.
	VGPUs []NovaDevice `json:"vgpus,omitempty"`
	// PCI are devices that it offers by PCI aliases: providers HOST_0000:3b:00.0
	// with an inventory of CUSTOM_PCI_VENDOR_PRODUCT.
	PCI []NovaDevice `json:"pci,omitempty"`
	// DeviceSpec is its [pci] device_spec, formerly passthrough_whitelist: matching devices
	// are Nova's, whether Placement has them or not.
	DeviceSpec pci.Whitelist `json:"device_spec,omitempty"`
}

// NovaDevice is a device of Nova.
type NovaDevice struct {
	// Address is its PCI address, 0000:3b:00.0.
	Address string `json:"address"`
	// Vendor and Product are four hexadecimal digits each, required for PCI.
	Vendor  string `json:"vendor,omitempty"`
	Product string `json:"product,omitempty"`
	// Total is its number of units; zero means 1.
	Total int `json:"total,omitempty"`
}

// providers are the resource providers of Nova's devices, with the traits of all that Nova makes.
// A nil Nova has no providers.
func (n *Nova) providers(host string, traits []string) []Provider {
	if n == nil {
		return nil
	}
	var list []Provider
	add := func(name, class string, total int) {
		list = append(list, Provider{Name: host + "_" + name, Inventory: map[string]int{class: cmp.Or(total, 1)}, Traits: traits})
	}
	for _, d := range n.VGPUs {
		add("pci_"+strings.NewReplacer(":", "_", ".", "_").Replace(d.Address), "VGPU", d.Total)
	}
	for _, d := range n.PCI {
		add(d.Address, strings.ToUpper("CUSTOM_PCI_"+d.Vendor+"_"+d.Product), d.Total)
	}
	return list
}

// novaFlavors are the flavors as Nova shows them.
func (m Model) novaFlavors() (list []nova.Flavor) {
	for _, f := range m.Flavors {
		list = append(list, nova.Flavor(f))
	}
	return list
}

// claims names the entry of the device_spec that matches a device of Cyborg, or "".
func (n *Nova) claims(d driver.Device) string {
	vendor, _ := strconv.ParseUint(strings.TrimPrefix(d.Vendor, "0x"), 16, 16)
	product, _ := strconv.ParseUint(cmp.Or(d.ProductID(), d.Model), 16, 16)
	for _, at := range d.Addresses() {
		function := driver.PCIFunction{Address: at.PCI, Vendor: uint16(vendor), Product: uint16(product)}
		if i, err := n.DeviceSpec.Match(function); at.Kind == driver.ControlPathPCI && err == nil && i >= 0 {
			return fmt.Sprintf("entry %d of Nova's [pci] device_spec admits %s", i, at)
		}
	}
	return ""
}

// nova checks the hardware of nova-compute.
func (c *validation) nova(path string, h Host) {
	for i, p := range h.Nova.providers(h.Name, nil) {
		kind, devices, at := "vgpus", h.Nova.VGPUs, i
		if i >= len(h.Nova.VGPUs) {
			kind, devices, at = "pci", h.Nova.PCI, i-len(h.Nova.VGPUs)
		}
		here, d := fmt.Sprintf("%s.%s[%d]", path, kind, at), devices[at]
		c.provider(here+".address", p.Name)
		if _, err := driver.ParsePCIAddress(d.Address); err != nil {
			c.fault(here+".address", err.Error())
		}
		c.notNegative(here, map[string]int{"total": d.Total})
		for name, id := range map[string]string{"vendor": d.Vendor, "product": d.Product} {
			if _, err := strconv.ParseUint(id, 16, 16); (err != nil || len(id) != 4) && kind == "pci" {
				c.fault(here+"."+name, fmt.Sprintf("%q is not four hexadecimal digits", id))
			}
		}
	}
	if err := h.Nova.DeviceSpec.Check(); err != nil {
		c.faultsOf(path+".device_spec", err)
	}
}
