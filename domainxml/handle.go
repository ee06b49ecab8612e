package domainxml

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// Attach handle types of Cyborg.
	HandlePCI     = "PCI"      // a PCI function
	HandleMDEV    = "MDEV"     // a mediated device
	HandleTestPCI = "TEST_PCI" // no hardware, of the fake driver

	// Values of [MdevTag].
	TagAccelerator = "ACCELERATOR" // Cyborg owns the guest's mediated devices
	TagCompute     = "COMPUTE"     // owned by Nova, or without handles
)

// Handle is the attach handle of one bound accelerator request.
type Handle struct {
	// ARQ is the UUID of the accelerator request, for errors.
	ARQ string
	// Type is the attach_handle_type: PCI, MDEV or TEST_PCI.
	Type string
	// UUID is the attach_handle_uuid. For MDEV it is the UUID of the mediated device;
	// otherwise it is ignored.
	UUID string
	// Info is the attach_handle_info. The keys of a PCI address are domain, bus,
	// device and function: hexadecimal strings with or without 0x, or JSON numbers. With
	// the key managed, "true" or "false", a PCI handle says whether libvirt binds the
	// function to vfio-pci; absent is "true". An MDEV handle may also have asked_type
	// and vgpu_mark.
	Info map[string]any
}

// Hostdevs converts attach handles to devices, in the order of the handles.
//
//   - PCI gives a PCI hostdev at the address of the handle's info; Cyborg's "device" is
//     libvirt's slot. It is managed unless the info says "managed": "false", as for a
//     function that must keep its vfio variant driver; Nova up to release 34 ignores that.
//   - MDEV gives a mediated device hostdev (model vfio-pci, not managed) with the
//     handle's UUID, as in the Wallaby vGPU specification.
//   - The alias of either is "ua-arq-" and the UUID of the accelerator request, which
//     libvirt keeps: it tells devices of accelerator requests from others.
//   - TEST_PCI gives no device, as there is no hardware, and is returned in skipped.
//
// Any other type, a missing or malformed value, and a device that two handles name
// are errors that match [ErrHandle] (the last also [ErrDuplicate]). All errors are reported
// together, without devices. Released Nova ignores all handles when one is not PCI
// (nova/virt/libvirt/driver.py), which starts guests without their devices.
func Hostdevs(handles []Handle) (devices []Hostdev, skipped []Handle, err error) {
	return convert(handles)
}

// convert makes the devices of handles or of ports.
func convert[H interface {
	handle() Handle
	device() (Hostdev, error)
}](handles []H) (devices []Hostdev, skipped []Handle, err error) {
	var errs []error
	holders := map[string]string{}
	for _, one := range handles {
		h := one.handle()
		if h.Type == HandleTestPCI {
			skipped = append(skipped, h)
			continue
		}
		d, err := one.device()
		if err == nil {
			err = h.checkDuplicate(d, holders)
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

func (h Handle) handle() Handle { return h }

var errUnbound = errors.New("no handle: the accelerator request is not bound")

func (h Handle) device() (Hostdev, error) {
	switch h.Type {
	case HandlePCI:
		address, err := h.address()
		managed, managedErr := h.managed()
		if err := errors.Join(err, managedErr); err != nil {
			return Hostdev{}, err
		}
		return pciDevice(h.ARQ, address, managed), nil
	case HandleMDEV:
		uuid, err := canonicalUUID(h.UUID)
		if err != nil {
			return Hostdev{}, h.fail("uuid", err)
		}
		return mdevDevice(h.ARQ, uuid), nil
	case "":
		return Hostdev{}, h.fail("type", errUnbound)
	}
	return Hostdev{}, h.fail("type", fmt.Errorf("unknown; known are %s, %s and %s", HandlePCI, HandleMDEV, HandleTestPCI))
}

// address parses the PCI address and reports all bad fields.
func (h Handle) address() (PCIAddress, error) {
	var a PCIAddress
	var errs []error
	for _, f := range []struct {
		key  string
		bits int
		into *uint
	}{{"domain", 16, &a.Domain}, {"bus", 8, &a.Bus}, {"device", 5, &a.Slot}, {"function", 3, &a.Function}} {
		n, err := hexField(h.Info[f.key], f.bits)
		if errors.Is(err, errMissing) {
			err = fmt.Errorf("%w from the handle's info, which has %s", err, keysOf(h.Info))
		}
		if err != nil {
			errs = append(errs, h.fail(f.key, err))
		}
		*f.into = n
	}
	return a, errors.Join(errs...)
}

// managed returns the attribute of the element that says whether libvirt rebinds the function.
func (h Handle) managed() (string, error) {
	value, present := h.Info["managed"]
	switch {
	case !present || value == "true":
		return "yes", nil
	case value == "false":
		return "no", nil
	}
	return "", h.fail("managed", fmt.Errorf(`%s is neither "true" nor "false"`, shortened(fmt.Sprintf("%#v", value))))
}

// checkDuplicate refuses a device that an earlier handle has.
func (h Handle) checkDuplicate(d Hostdev, holders map[string]string) error {
	name := d.String()
	if first, taken := holders[name]; taken {
		holder := "accelerator request " + first
		return h.fail("device", &DuplicateError{Device: name, ARQ: h.ARQ, Holder: holder})
	}
	holders[name] = h.ARQ
	return nil
}

func (h Handle) fail(field string, err error) error {
	return fmt.Errorf("domainxml: %w of accelerator request %s (type %q): %s: %w", ErrHandle, h.ARQ, h.Type, field, err)
}

func keysOf(info map[string]any) string {
	if len(info) == 0 {
		return "no keys"
	}
	keys := slices.Sorted(maps.Keys(info))
	for i, key := range keys {
		keys[i] = shortened(key)
	}
	return strings.Join(keys, ", ")
}

// MdevTag returns the mdev_tag of the Wallaby vGPU specification, the owner of a
// guest's mediated devices: [TagAccelerator] if a handle has type MDEV, a UUID and a
// non-empty asked_type, else [TagCompute]. With TagAccelerator, do not copy the
// mediated devices of the old domain in a hard reboot: the accelerator requests add
// them, and libvirt refuses duplicates.
func MdevTag(handles []Handle) string {
	for _, h := range handles {
		asked, _ := h.Info["asked_type"].(string)
		if h.Type == HandleMDEV && h.UUID != "" && asked != "" {
			return TagAccelerator
		}
	}
	return TagCompute
}
