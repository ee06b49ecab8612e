package domainxml

import (
	"errors"
	"fmt"
)

// NodeDevice returns the node device document with which libvirt creates or defines
// the mediated device of an MDEV handle. The vGPU specification of Nova 2026.2 has
// Nova create the device; in the one of Wallaby Cyborg's agent does, without this
// document. parent is libvirt's name of the parent device; empty means that of the PCI
// address in the handle's info. The info must have asked_type; errors match
// [ErrHandle].
func NodeDevice(h Handle, parent string) ([]byte, error) {
	if h.Type != HandleMDEV {
		return nil, h.fail("type", fmt.Errorf("only %s handles have a mediated device", HandleMDEV))
	}
	uuid, err := canonicalUUID(h.UUID)
	if err != nil {
		return nil, h.fail("uuid", err)
	}
	asked, _ := h.Info["asked_type"].(string)
	if asked == "" {
		return nil, h.fail("asked_type", errors.New("missing"))
	}
	if parent == "" {
		address, err := h.address()
		if err != nil {
			return nil, err
		}
		parent = fmt.Sprintf("pci_%04x_%02x_%02x_%x", address.Domain, address.Bus, address.Slot, address.Function)
	}
	return fmt.Appendf(nil, nodeDeviceText, escaped(parent), escaped(asked), uuid), nil
}

const nodeDeviceText = `<device>
  <parent>%s</parent>
  <capability type="mdev">
    <type id="%s"/>
    <uuid>%s</uuid>
  </capability>
</device>
`
