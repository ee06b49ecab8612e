package domainxml

import (
	"errors"
	"fmt"
)

var (
	// ErrHandle reports an attach handle that cannot become a device. Every
	// [*HandleError] is one.
	ErrHandle = errors.New("unusable attach handle")
	// ErrNotDomain reports a document that is not one libvirt domain in UTF-8.
	ErrNotDomain = errors.New("not a libvirt domain")
	// ErrDuplicate reports a device that a domain, or a list, would have twice.
	// Every [*DuplicateError] is one.
	ErrDuplicate = errors.New("device already present")
	// ErrDevice reports a [Device] that describes no device, two devices, or
	// one outside the ranges of a PCI address.
	ErrDevice = errors.New("invalid device")
)

// HandleError says what is wrong with the attach handle of one accelerator
// request. It satisfies errors.Is for [ErrHandle] and for its cause.
type HandleError struct {
	ARQ   string // UUID of the accelerator request
	Type  string // handle type as received
	Field string // what is wrong: "type", "uuid", or a key of the handle's info
	Err   error  // why
}

// Error names the accelerator request, the handle type, the field and the cause.
func (e *HandleError) Error() string {
	return fmt.Sprintf("domainxml: handle of accelerator request %s (type %q): %s: %v", e.ARQ, e.Type, e.Field, e.Err)
}

// Unwrap gives [ErrHandle] and the cause.
func (e *HandleError) Unwrap() []error { return []error{ErrHandle, e.Err} }

// DuplicateError names a device that would be present twice. It satisfies
// errors.Is for [ErrDuplicate].
type DuplicateError struct {
	Device string // "pci 0000:3b:00.0" or "mdev <uuid>"
	ARQ    string // accelerator request whose device was refused; may be empty
	Holder string // what has the device already: "the domain's hostdev", or an accelerator request
}

// Error names the device, the accelerator request refused and the holder.
func (e *DuplicateError) Error() string {
	subject := e.Device
	if e.ARQ != "" {
		subject += " of accelerator request " + e.ARQ
	}
	return fmt.Sprintf("domainxml: %s: %v: %s has it", subject, ErrDuplicate, e.Holder)
}

// Unwrap gives [ErrDuplicate].
func (e *DuplicateError) Unwrap() error { return ErrDuplicate }
