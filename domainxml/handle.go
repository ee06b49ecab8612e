package domainxml

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Handle types that Cyborg stores; it knows no others.
const (
	HandlePCI     = "PCI"
	HandleMDEV    = "MDEV"
	HandleTestPCI = "TEST_PCI"
)

// Handle is the attach handle of one bound accelerator request.
type Handle struct {
	// ARQ is the UUID of the accelerator request; errors name it.
	ARQ string
	// Type is the attach_handle_type: PCI, MDEV or TEST_PCI.
	Type string
	// UUID is the attach_handle_uuid. For MDEV it is the UUID of the mediated
	// device itself; otherwise it is not used.
	UUID string
	// Info is the attach_handle_info. The keys of a PCI address are domain, bus,
	// device and function: hexadecimal texts with or without 0x, or JSON numbers
	// taken at their value. An MDEV handle may also have asked_type and vgpu_mark.
	Info map[string]any
}

// Skipped is a handle that becomes no device on purpose.
type Skipped struct {
	ARQ  string
	Type string
	// Reason is why, one of the Reason constants; empty for TEST_PCI.
	Reason string
}

// Hostdevs turns attach handles into devices, in the order of the handles.
//
//   - PCI gives a managed PCI hostdev at the address of the handle's info;
//     Cyborg's "device" is libvirt's slot.
//   - MDEV gives a mediated device hostdev (model vfio-pci, not managed) of the
//     handle's UUID, as the Wallaby vGPU specification says.
//   - TEST_PCI gives no device and is listed in skipped: the accelerator request
//     counts as composed, with nothing to add.
//
// Any other type, a missing or unreadable value, and a device that two handles
// name are errors; each is a [*HandleError] (errors.Is [ErrHandle], and
// [ErrDuplicate] for the last), all of them are reported at once, and then no
// device is returned. [Options] has other rules. Released Nova ignores every handle as soon as one is not
// PCI (nova/virt/libvirt/driver.py), which starts guests without their devices.
func Hostdevs(handles []Handle) (devices []Device, skipped []Skipped, err error) {
	return Options{}.Hostdevs(handles)
}

func (h Handle) device() (Device, error) {
	switch h.Type {
	case HandlePCI:
		address, err := h.address()
		if err != nil {
			return Device{}, err
		}
		return pciDevice(h.ARQ, address), nil
	case HandleMDEV:
		uuid, err := canonicalUUID(h.UUID)
		if err != nil {
			return Device{}, h.fail("uuid", err)
		}
		return mdevDevice(h.ARQ, uuid), nil
	case "":
		return Device{}, h.fail("type", errors.New("no handle: the accelerator request is not bound"))
	}
	return Device{}, h.fail("type", fmt.Errorf("unknown; known are %s, %s and %s", HandlePCI, HandleMDEV, HandleTestPCI))
}

// address reads the PCI address and reports every bad field at once.
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

// claim refuses a device that an earlier handle of the list named.
func (h Handle) claim(d Device, holders map[string]string) error {
	name := d.String()
	if first, taken := holders[name]; taken {
		holder := "accelerator request " + first
		return h.fail("device", &DuplicateError{Device: name, ARQ: h.ARQ, Holder: holder})
	}
	holders[name] = h.ARQ
	return nil
}

func (h Handle) fail(field string, err error) *HandleError {
	return &HandleError{ARQ: h.ARQ, Type: h.Type, Field: field, Err: err}
}

func keysOf(info map[string]any) string {
	if len(info) == 0 {
		return "no keys"
	}
	keys := make([]string, 0, len(info))
	for k := range info {
		keys = append(keys, shortened(k))
	}
	sort.Strings(keys)
	return strings.Join(keys, ", ")
}
