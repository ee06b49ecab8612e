package domainxml

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// PortHandle is the attach handle of a network port.
type PortHandle struct {
	Handle
	// MAC is the address of the port: six bytes, "52:54:00:1e:59:c3".
	MAC string
	// VLAN is the tag of the port's network, 1 to 4094, or 0 for no VLAN.
	VLAN int
}

// Interfaces converts the accelerators of network ports to interfaces of type
// hostdev, in the order of the ports. The interface passes the PCI function through
// and sets its MAC address and VLAN (nova/virt/libvirt/vif.py, set_config_hw_veb).
//
// TEST_PCI handles are skipped as in [Hostdevs]. A handle of another type than PCI, a
// malformed address, MAC or VLAN, and a function that two ports have are errors as
// there.
func Interfaces(ports []PortHandle) (devices []Hostdev, skipped []Handle, err error) {
	return convert(ports)
}

var errPortType = errors.New("a network port needs a " + HandlePCI + " or " + HandleTestPCI + " handle")

var macForm = regexp.MustCompile(`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`)

func (p PortHandle) device() (Hostdev, error) {
	switch p.Type {
	case HandlePCI:
	case "":
		return Hostdev{}, p.fail("type", errUnbound)
	default:
		return Hostdev{}, p.fail("type", errPortType)
	}
	address, err := p.address()
	managed, managedErr := p.managed()
	if err := errors.Join(err, managedErr); err != nil {
		return Hostdev{}, err
	}
	if !macForm.MatchString(p.MAC) {
		return Hostdev{}, p.fail("mac", fmt.Errorf("%q is not a MAC address of six bytes", shortened(p.MAC)))
	}
	if p.VLAN < 0 || p.VLAN > 4094 {
		return Hostdev{}, p.fail("vlan", fmt.Errorf("%d is not a VLAN tag", p.VLAN))
	}
	return Hostdev{ARQ: p.ARQ, PCI: &address, Interface: portInterface(address, managed, strings.ToLower(p.MAC), p.VLAN)}, nil
}

func portInterface(a PCIAddress, managed, mac string, vlan int) *libvirtxml.DomainInterface {
	i := &libvirtxml.DomainInterface{
		Managed: managed,
		MAC:     &libvirtxml.DomainInterfaceMAC{Address: mac},
		Source: &libvirtxml.DomainInterfaceSource{Hostdev: &libvirtxml.DomainInterfaceSourceHostdev{
			PCI: &libvirtxml.DomainHostdevSubsysPCISource{Address: a.element()},
		}},
	}
	if vlan > 0 {
		i.VLan = &libvirtxml.DomainInterfaceVLan{Tags: []libvirtxml.DomainInterfaceVLanTag{{ID: uint(vlan)}}}
	}
	return i
}

// Keys of an accelerator in the binding:profile of its port.
const (
	profileNetwork = "physical_network"
	profileSlot    = "pci_slot"
	profileARQ     = "arq_uuid"
)

// BindingProfile returns a copy of a port's binding:profile with physical_network,
// pci_slot and arq_uuid of its accelerator. The slot has the padding of the handle:
// "0000:0c:0.0". The handle must be PCI or TEST_PCI and have a physical_network;
// errors match [ErrHandle] (nova/network/neutron.py,
// _populate_neutron_binding_profile).
func BindingProfile(profile map[string]any, h Handle) (map[string]any, error) {
	if h.Type != HandlePCI && h.Type != HandleTestPCI {
		return nil, h.fail("type", errPortType)
	}
	if _, err := h.address(); err != nil {
		return nil, err
	}
	network, _ := h.Info[profileNetwork].(string)
	if network == "" {
		return nil, h.fail(profileNetwork, errMissing)
	}
	merged := maps.Clone(profile)
	if merged == nil {
		merged = map[string]any{}
	}
	merged[profileNetwork], merged[profileARQ] = network, h.ARQ
	merged[profileSlot] = fmt.Sprintf("%s:%s:%s.%s",
		slotPart(h.Info["domain"]), slotPart(h.Info["bus"]), slotPart(h.Info["device"]), slotPart(h.Info["function"]))
	return merged, nil
}

// slotPart returns one part of a valid slot.
func slotPart(value any) string {
	if text, ok := value.(string); ok {
		return strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	}
	n, _ := hexField(value, 16)
	return fmt.Sprintf("%x", n)
}

// CleanBindingProfile returns a copy of a port's binding:profile without the keys that
// Nova writes for a device.
func CleanBindingProfile(profile map[string]any) map[string]any {
	kept := maps.Clone(profile)
	for _, key := range []string{
		"pci_vendor_info", profileSlot, "allocation", profileARQ, profileNetwork,
		"card_serial_number", "vf_num", "pf_mac_address", "device_mac_address",
	} {
		delete(kept, key)
	}
	return kept
}
