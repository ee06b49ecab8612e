package domainxml

import (
	"errors"
	"fmt"
	"strings"
)

// Lifetime says how long libvirt keeps a mediated device. The document of the device is the same
// for each; the calls differ.
type Lifetime string

// The lifetimes of mediated devices.
const (
	// LifetimeTransient is the lifetime of a device of nodedev-create (virNodeDeviceCreateXML), until it is destroyed or
	// its host reboots. The zero value of Lifetime means the same.
	LifetimeTransient Lifetime = "transient"
	// LifetimePersistent is the lifetime of a device of nodedev-define and nodedev-start (virNodeDeviceDefineXML,
	// virNodeDeviceCreate): its definition remains until nodedev-undefine, also when the device itself was
	// removed in sysfs.
	LifetimePersistent Lifetime = "persistent"
	// LifetimeAutostart is a persistent one that libvirt starts with the host (nodedev-autostart,
	// virNodeDeviceSetAutostart), as Nova 34 creates it.
	LifetimeAutostart Lifetime = "autostart"
)

// Virsh returns the commands of virsh that create a device, in their order. The first has the file of the
// document as its argument, the others the name of the device.
func (l Lifetime) Virsh() []string {
	switch l {
	case LifetimePersistent:
		return []string{"nodedev-define", "nodedev-start"}
	case LifetimeAutostart:
		return []string{"nodedev-define", "nodedev-autostart", "nodedev-start"}
	}
	return []string{"nodedev-create"}
}

// NodeDevice is the mediated device of an MDEV handle as libvirt's node device driver has it. Nova 34 looks
// it up by its name, and creates it with [LifetimeAutostart] if libvirt does not have it
// (nova/virt/libvirt/driver.py).
type NodeDevice struct {
	// Name is that of libvirt since 7.7: mdev_, the UUID and the address of the parent, with
	// underscores. It is empty with a parent that is not the handle's PCI address: libvirt chooses it.
	Name string `json:"name,omitempty"`
	// Parent is libvirt's name of the parent device, such as pci_0000_41_00_0.
	Parent string `json:"parent"`
	// Type is the type of the device, such as nvidia-223: the asked_type of the handle.
	Type string `json:"type"`
	// UUID is the UUID of the device, in lower case with dashes.
	UUID string `json:"uuid"`
	// Lifetime says how to create the device. Empty means [LifetimeTransient].
	Lifetime Lifetime `json:"lifetime,omitempty"`
}

// NodeDeviceOf returns the mediated device of an MDEV handle. Parent is libvirt's name of the parent
// device; empty means the name of the PCI address in the handle's info. The info must have asked_type; errors match
// [ErrHandle].
//
// In the vGPU specification of Nova 2026.2 Nova creates the device; in the Wallaby specification Cyborg's agent does, without
// libvirt.
func NodeDeviceOf(h Handle, parent string) (NodeDevice, error) {
	if h.Type != HandleMDEV {
		return NodeDevice{}, h.fail("type", fmt.Errorf("only %s handles have a mediated device", HandleMDEV))
	}
	uuid, err := canonicalUUID(h.UUID)
	if err != nil {
		return NodeDevice{}, h.fail("uuid", err)
	}
	asked, _ := h.Info["asked_type"].(string)
	if asked == "" {
		return NodeDevice{}, h.fail("asked_type", errors.New("missing"))
	}
	d := NodeDevice{Parent: parent, Type: asked, UUID: uuid}
	if parent != "" {
		return d, nil
	}
	a, err := h.address()
	if err != nil {
		return NodeDevice{}, err
	}
	at := fmt.Sprintf("%04x_%02x_%02x_%x", a.Domain, a.Bus, a.Slot, a.Function)
	d.Name, d.Parent = "mdev_"+strings.ReplaceAll(uuid, "-", "_")+"_"+at, "pci_"+at
	return d, nil
}

// XML returns the node device document with which libvirt creates or defines the device.
func (d NodeDevice) XML() []byte {
	return fmt.Appendf(nil, nodeDeviceText, escaped(d.Parent), escaped(d.Type), escaped(d.UUID))
}

const nodeDeviceText = `<device>
  <parent>%s</parent>
  <capability type="mdev">
    <type id="%s"/>
    <uuid>%s</uuid>
  </capability>
</device>
`
