package domainxml

import (
	"errors"
	"fmt"
)

// NodeDeviceOpts are the options of [NodeDevice].
type NodeDeviceOpts struct {
	// Parent is libvirt's name of the parent device; empty takes that of the PCI
	// address in the handle's info. Parents that are no PCI functions have a name
	// of their own, such as mtty_mtty.
	Parent string
}

// NodeDevice gives the node device document by which libvirt makes, or defines,
// the mediated device of an MDEV handle: the vGPU specification of Nova 2026.2
// has Nova do so, where by the one of Wallaby Cyborg's agent writes to sysfs and
// this document is not needed. The handle's info has the parent's address and
// asked_type; what is missing or unreadable is a [*HandleError].
func NodeDevice(h Handle, opts NodeDeviceOpts) ([]byte, error) {
	if h.Type != HandleMDEV {
		return nil, h.fail("type", fmt.Errorf("only %s handles are mediated devices", HandleMDEV))
	}
	uuid, err := canonicalUUID(h.UUID)
	if err != nil {
		return nil, h.fail("uuid", err)
	}
	asked, _ := h.Info["asked_type"].(string)
	if asked == "" {
		return nil, h.fail("asked_type", errors.New("missing: the type of the mediated device is not known"))
	}
	if opts.Parent == "" {
		address, err := h.address()
		if err != nil {
			return nil, err
		}
		opts.Parent = NodeDeviceName(address)
	}
	return fmt.Appendf(nil, nodeDeviceText, escaped(opts.Parent), escaped(asked), uuid), nil
}

const nodeDeviceText = `<device>
  <parent>%s</parent>
  <capability type="mdev">
    <type id="%s"/>
    <uuid>%s</uuid>
  </capability>
</device>
`

// NodeDeviceName is libvirt's name of a PCI function: pci_0000_10_01_0.
func NodeDeviceName(a PCIAddress) string {
	return fmt.Sprintf("pci_%04x_%02x_%02x_%x", a.Domain, a.Bus, a.Slot, a.Function)
}
