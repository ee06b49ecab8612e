package domainxml

import (
	"errors"
	"fmt"
)

var (
	// ErrHandle reports an attach handle that cannot become a device. The text names
	// the accelerator request, the type of the handle and the wrong field: type, uuid,
	// or a key of its info.
	ErrHandle = errors.New("unusable attach handle")
	// ErrNotDomain reports a document that is not a libvirt domain in UTF-8.
	ErrNotDomain = errors.New("not a libvirt domain")
	// ErrDuplicate reports a device that a domain or a list would have twice. Every
	// [*DuplicateError] matches it.
	ErrDuplicate = errors.New("device already present")
	// ErrDevice reports a [Hostdev] that describes no device, two devices, or
	// one outside the ranges of a PCI address.
	ErrDevice = errors.New("invalid device")
	// ErrAbsent reports a device that a domain lacks.
	ErrAbsent = errors.New("device not present")
)

// DuplicateError reports a device that would be present twice. It matches
// [ErrDuplicate].
type DuplicateError struct {
	Device string // "pci 0000:3b:00.0" or "mdev <uuid>"
	ARQ    string // accelerator request whose device was refused; may be empty
	Holder string // what has the device: "a hostdev of the domain", or an accelerator request
}

// Error returns the device, the refused accelerator request and the holder.
func (e *DuplicateError) Error() string {
	subject := e.Device
	if e.ARQ != "" {
		subject += " of accelerator request " + e.ARQ
	}
	return fmt.Sprintf("domainxml: %s: %v: %s has it", subject, ErrDuplicate, e.Holder)
}

// Unwrap returns [ErrDuplicate].
func (e *DuplicateError) Unwrap() error { return ErrDuplicate }
