package domainxml

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// ErrOptions reports [Options] that contradict themselves.
var ErrOptions = errors.New("invalid options")

// Options says how attach handles become devices. The zero value judges every
// handle by itself, as the vGPU specification of Nova 2026.2 does, and refuses
// handles of a type that nobody knows.
type Options struct {
	// NovaMaster takes released Nova's rule instead: the handles become devices
	// only if each of them is PCI; otherwise all of them are skipped
	// (nova/virt/libvirt/driver.py, _get_guest_pci_devices of the ARQs).
	NovaMaster bool `json:"nova_master,omitempty"`
	// IgnoreUnknown skips handles of a type that nobody knows, as the same
	// specification says, in place of an error. A handle without any type stays
	// an error: its accelerator request is not bound.
	IgnoreUnknown bool `json:"ignore_unknown,omitempty"`
	// VirtType is the type of the domain, "kvm" when empty. With "parallels" PCI
	// devices are not managed, as in Nova.
	VirtType string `json:"virt_type,omitempty"`
	// Display makes mediated devices a display of the guest (display="on"). The
	// domain needs a graphics device then, which is why it is off by default.
	Display bool `json:"display,omitempty"`
	// RamFB gives such a display a frame buffer before its driver is loaded
	// (ramfb="on"). It needs Display.
	RamFB bool `json:"ramfb,omitempty"`
}

// Reasons of [Skipped].
const (
	// ReasonNoHardware is that of a TEST_PCI handle.
	ReasonNoHardware = ""
	// ReasonUnknown is that of a handle of an unknown type, with IgnoreUnknown.
	ReasonUnknown = "unknown type"
	// ReasonNovaMaster is that of every handle when one is not PCI, with
	// NovaMaster.
	ReasonNovaMaster = "not every handle is PCI"
)

// Hostdevs is the function [Hostdevs] with these options. The error is
// [ErrOptions] when they contradict themselves, else as there.
func (o Options) Hostdevs(handles []Handle) (devices []Device, skipped []Skipped, err error) {
	if o.RamFB && !o.Display {
		return nil, nil, fmt.Errorf("domainxml: %w: ramfb without display", ErrOptions)
	}
	if o.NovaMaster && len(UnsupportedTypes(handles)) > 0 {
		for _, h := range handles {
			skipped = append(skipped, Skipped{ARQ: h.ARQ, Type: h.Type, Reason: ReasonNovaMaster})
		}
		return nil, skipped, nil
	}
	var errs []error
	holders := map[string]string{}
	for _, h := range handles {
		if reason, skip := o.skips(h); skip {
			skipped = append(skipped, Skipped{ARQ: h.ARQ, Type: h.Type, Reason: reason})
			continue
		}
		d, err := h.device()
		if err == nil {
			err = h.claim(d, holders)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		o.apply(&d)
		devices = append(devices, d)
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	return devices, skipped, nil
}

// skips tells which handles become no device, and why.
func (o Options) skips(h Handle) (reason string, skip bool) {
	switch h.Type {
	case HandleTestPCI:
		return ReasonNoHardware, true
	case HandlePCI, HandleMDEV, "":
		return "", false
	}
	return ReasonUnknown, o.IgnoreUnknown
}

func (o Options) apply(d *Device) {
	if d.PCI != nil && o.VirtType == "parallels" {
		d.Hostdev.Managed = "no"
	}
	if d.MDEV != "" && o.Display {
		d.Hostdev.SubsysMDev.Display = "on"
		if o.RamFB {
			d.Hostdev.SubsysMDev.RamFB = "on"
		}
	}
}

// UnsupportedTypes lists, sorted, the types among the handles that released
// Nova does not compose: all but PCI, TEST_PCI and the empty type included.
func UnsupportedTypes(handles []Handle) []string {
	seen := map[string]bool{HandlePCI: true}
	types := []string{}
	for _, h := range handles {
		if !seen[h.Type] {
			seen[h.Type] = true
			types = append(types, h.Type)
		}
	}
	sort.Strings(types)
	return types
}

// IgnoredMessage is the line that released Nova logs when it leaves all
// accelerators of an instance out of the guest; empty when it would not.
func IgnoredMessage(instance string, handles []Handle) string {
	types := UnsupportedTypes(handles)
	if len(types) == 0 {
		return ""
	}
	for i, name := range types {
		types[i] = "'" + shortened(name) + "'"
	}
	return fmt.Sprintf("Ignoring accelerator requests for instance %s. Supported Attach handle types: {'PCI'}. "+
		"But got these unsupported types: {%s}.", instance, strings.Join(types, ", "))
}
