package domainxml

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Port is the accelerator of a network port: its attach handle and what the
// interface in the guest needs beside it.
type Port struct {
	Handle
	// MAC is the address of the port: six bytes, "52:54:00:1e:59:c3".
	MAC string
	// VLAN is the tag of the port's network, 1 to 4094; 0 is none.
	VLAN int
}

// Interfaces turns the accelerators of network ports into interfaces of type
// hostdev, in the order of the ports. A port's accelerator is no host device: the
// interface passes the function through, and sets its address and VLAN
// (nova/virt/libvirt/vif.py, set_config_hw_veb).
//
// A TEST_PCI handle is skipped as in [Hostdevs]. Any other handle than PCI, a
// bad address, MAC or VLAN, and a function that two ports have are errors as
// there; then nothing is returned.
func Interfaces(ports []Port) (devices []Device, skipped []Skipped, err error) {
	var errs []error
	holders := map[string]string{}
	for _, p := range ports {
		if p.Type == HandleTestPCI {
			skipped = append(skipped, Skipped{ARQ: p.ARQ, Type: p.Type})
			continue
		}
		d, err := p.device()
		if err == nil {
			err = p.claim(d, holders)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		devices = append(devices, d)
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	return devices, skipped, nil
}

var macForm = regexp.MustCompile(`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`)

func (p Port) device() (Device, error) {
	switch p.Type {
	case HandlePCI:
	case "":
		return Device{}, p.fail("type", errors.New("no handle: the accelerator request is not bound"))
	default:
		return Device{}, p.fail("type", fmt.Errorf("a network port takes %s or %s only", HandlePCI, HandleTestPCI))
	}
	address, err := p.address()
	if err != nil {
		return Device{}, err
	}
	if !macForm.MatchString(p.MAC) {
		return Device{}, p.fail("mac", fmt.Errorf("%q is not a MAC address of six bytes", shortened(p.MAC)))
	}
	if p.VLAN < 0 || p.VLAN > 4094 {
		return Device{}, p.fail("vlan", fmt.Errorf("%d is no VLAN tag", p.VLAN))
	}
	return Device{ARQ: p.ARQ, PCI: &address, Interface: portInterface(address, strings.ToLower(p.MAC), p.VLAN)}, nil
}

func portInterface(a PCIAddress, mac string, vlan int) *libvirtxml.DomainInterface {
	i := &libvirtxml.DomainInterface{
		Managed: "yes",
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

// The keys that an accelerator adds to the binding:profile of its port.
const (
	profileNetwork = "physical_network"
	profileSlot    = "pci_slot"
	profileARQ     = "arq_uuid"
)

// BindingProfile gives the binding:profile of a port with its accelerator: the
// keys of profile, and physical_network, pci_slot and arq_uuid over them. The
// slot is written as the handle has it, without padding: "0000:0c:0.0". The
// handle is of type PCI or TEST_PCI, and its info names the physical network,
// or the error is a [*HandleError]. The profile given is not changed
// (nova/network/neutron.py, _populate_neutron_binding_profile).
func BindingProfile(profile map[string]any, h Handle) (map[string]any, error) {
	if h.Type != HandlePCI && h.Type != HandleTestPCI {
		return nil, h.fail("type", fmt.Errorf("a network port takes %s or %s only", HandlePCI, HandleTestPCI))
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

// slotPart is one part of a slot that address has accepted.
func slotPart(value any) string {
	if text, ok := value.(string); ok {
		if len(text) > 2 && strings.EqualFold(text[:2], "0x") {
			return text[2:]
		}
		return text
	}
	n, _ := hexField(value, 16)
	return fmt.Sprintf("%x", n)
}

// CleanBindingProfile gives the binding:profile of a port that is unbound: all
// keys but those that Nova writes for a device. The profile given is not changed.
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
