package driver

import "errors"

// Errors to compare with errors.Is.
var (
	// ErrConfig is the cause of every error about the configuration of a driver, and of
	// problems with configured hardware that is not there.
	ErrConfig = errors.New("bad configuration")
	// ErrInvalidDevice is the cause of every error of Device.Validate.
	ErrInvalidDevice = errors.New("driver: invalid device")
	// ErrName is the cause of every error about a trait, a resource class or a part of one.
	ErrName = errors.New("driver: bad name")
	// ErrPCIAddress is the cause of every error about a PCI address.
	ErrPCIAddress = errors.New("driver: bad PCI address")
	// ErrHandle is the cause of every error about an attach handle whose information does not fit its type.
	ErrHandle = errors.New("driver: bad attach handle")
	// ErrGarbled is the cause of a Problem with a file whose content is not what the kernel writes there.
	ErrGarbled = errors.New("garbled content")
	// ErrNotWritten is matched by the errors of Programmer.Program before anything was written.
	ErrNotWritten = errors.New("driver: not written")
	// ErrMdevType is the cause of the problem with a parent that lacks a type.
	ErrMdevType = errors.New("driver: unsupported mediated device type")
	// ErrDoubleClaim is the cause of the problem with a device that two drivers report.
	ErrDoubleClaim = errors.New("driver: two drivers report one device")
	// ErrSnapshot is matched by the errors of Snapshotter.Prepare.
	ErrSnapshot = errors.New("bad snapshot")
)
