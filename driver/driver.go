package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"
)

// Driver finds the devices of one kind on one host.
type Driver interface {
	// Name is the name that agents and operators use, such as "nvidia". It is unique among the drivers of a host.
	Name() string
	// Discover reads the hardware as it is now. A problem with one device is part of the report
	// and does not affect the others; an agent keeps the last report of such a device. The error
	// is the error of ctx, or of a directory that is required to list devices, such as
	// bus/pci/devices; an agent then keeps the last report of the driver.
	Discover(ctx context.Context) (Report, error)
}

// Programmer is implemented by drivers of programmable devices. Upstream's agent calls
// it for the FPGA family, at bind or through the deployable's program call.
type Programmer interface {
	// Program writes an image to the device at the control path. The name of the deployable selects the region of a card with
	// several; empty leaves the choice to the driver. An error before anything was written, such
	// as the error of a cancelled context, matches ErrNotWritten. After another error the content
	// is unknown.
	Program(ctx context.Context, path ControlPath, deployable string, image []byte) error
}

// MdevDriver is implemented by drivers whose handles are mediated devices. Both methods
// reach the same state when they are called twice, and leave other mediated devices alone. Their
// error about one that Mdev.Validate refuses wraps ErrHandle.
type MdevDriver interface {
	// CreateMdev makes the mediated device with the uuid of the attach handle.
	CreateMdev(ctx context.Context, m Mdev) error
	// RemoveMdev removes it. A missing device is not an error.
	RemoveMdev(ctx context.Context, m Mdev) error
}

// TreeDriver is implemented by drivers that read a sysfs tree. Their Discover is
// DiscoverIn with a view of that tree; DiscoverAll gives one view to all of them.
type TreeDriver interface {
	Driver
	// Tree is the tree that the driver was made for.
	Tree() Tree
	// DiscoverIn is Discover on a view of Tree, which it only reads.
	DiscoverIn(ctx context.Context, view *View) (Report, error)
}

// Claimer is implemented by drivers that say which PCI functions are theirs.
type Claimer interface {
	// Claims lists the functions of the driver as it is configured.
	Claims() []Claim
}

// Claim is a kind of PCI functions. Zero matches any number.
type Claim struct {
	Vendor, Product uint16
	// Class has base class and subclass: 0x0302.
	Class uint16
	// Why names the kind: "Intel QuickAssist C62x".
	Why string
}

// Covers reports whether a function is of the kind.
func (c Claim) Covers(f PCIFunction) bool {
	return (c.Vendor == 0 || c.Vendor == f.Vendor) && (c.Product == 0 || c.Product == f.Product) &&
		(c.Class == 0 || c.Class == f.DeviceClass())
}

// Tree is a sysfs file system as drivers see it, with udev's records of block devices below run/udev/data. Names are
// slash separated and relative to the mount, such as "bus/pci/devices/0000:3b:00.0/vendor", and valid in the sense of
// fs.ValidPath. All methods but Readlink follow symbolic links, and never beyond the mount. Errors are of type
// *fs.PathError and wrap fs.ErrNotExist, fs.ErrPermission and the like. Implementations are safe for concurrent use.
type Tree interface {
	// ReadFile returns what the file holds; a file too large for sysfs is refused.
	ReadFile(name string) ([]byte, error)
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Readlink returns the target of the symbolic link as it is written.
	Readlink(name string) (string, error)
	// WriteFile writes to an existing file, with the effects the kernel gives it.
	WriteFile(name string, data []byte) error
}

// Report is the result of one discovery.
type Report struct {
	Devices []Device
	// LeftOut are devices that the driver knows and does not offer.
	LeftOut []Notice
	// Problems are devices and files that could not be read or parsed.
	Problems []Problem
	// Warnings are about devices that are offered and with which a guest may not start.
	Warnings []Notice
	// Err is why a driver that DiscoverAll asked failed altogether; the report is empty then.
	Err error
}

// Notice says why a device of the driver's kind must not be offered, or why a guest may not start with one that is.
type Notice struct {
	Address string `json:"address"`
	Driver  string `json:"driver"`
	Reason  string `json:"reason"`
}

// Problem is an error about one device or one file. Address is empty when no device is concerned, File when no file
// is. A device at Address may exist, unless the error wraps ErrConfig.
type Problem struct {
	Address string
	File    string
	Err     error
}

// Error returns address, file and cause in one line.
func (p Problem) Error() string {
	switch {
	case p.Address == "" && p.File == "":
		return fmt.Sprintf("driver: %v", p.Err)
	case p.Address == "":
		return fmt.Sprintf("driver: %s: %v", p.File, p.Err)
	case p.File == "":
		return fmt.Sprintf("driver: device %s: %v", p.Address, p.Err)
	}
	return fmt.Sprintf("driver: device %s: %s: %v", p.Address, p.File, p.Err)
}

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// AddProblem adds a problem with the device at an address. The error may be a Problem that names a file.
func (r *Report) AddProblem(address string, err error) {
	r.Problems = append(r.Problems, problemOf(address, err))
}

// problemOf returns the problem that an error is, or makes one of it. Address, unless empty, says what it is about.
func problemOf(address string, err error) Problem {
	var p Problem
	if !errors.As(err, &p) {
		p.Err = err
	}
	p.Address = cmp.Or(address, p.Address)
	return p
}

// ProviderUUID returns the identifier of the resource provider of a deployable: the
// version 3 UUID of its name in the DNS name space, as upstream's conductor computes it.
func ProviderUUID(name string) string {
	return uuid.NewMD5(uuid.NameSpaceDNS, []byte(name)).String()
}

// Snapshotter is implemented by drivers whose state is not all in their configuration and
// their tree, and by trees. A driver without it can be made anew at any time.
type Snapshotter interface {
	// Dump returns what the driver remembers as one JSON document with the field schema_version. The same state gives
	// the same bytes, and a driver that has loaded a dump gives the same dump.
	Dump() ([]byte, error)
	// Prepare checks a dump of a driver of the same configuration, changes nothing, and returns the function that makes
	// the driver remember what it says, in place of all it remembers then. The error matches ErrSnapshot.
	Prepare(data []byte) (load func(), err error)
}

// Load makes a driver remember what a dump says. On an error, which is that of Prepare, it is as it was.
func Load(into Snapshotter, data []byte) error {
	load, err := into.Prepare(data)
	if err == nil {
		load()
	}
	return err
}

// Machine is implemented by drivers that are their own hardware instead of reading a tree, as those of
// simulations are.
type Machine interface {
	// Mdevs lists the mediated devices that are there now.
	Mdevs() []Mdev
	// Reboot does what a restart of the host does: it removes mediated devices.
	Reboot()
}

// TreeReader has the methods that all drivers which read a tree have alike. Such a driver embeds it.
type TreeReader struct {
	name     string
	tree     Tree
	discover func(ctx context.Context, view *View) (Report, error)
}

var _ TreeDriver = TreeReader{}

// NewTreeReader returns the methods of a driver by its name, the tree that it was made for,
// and its discovery on a view of that tree.
func NewTreeReader(name string, tree Tree, discover func(ctx context.Context, view *View) (Report, error)) TreeReader {
	return TreeReader{name, tree, discover}
}

// Name implements Driver.
func (r TreeReader) Name() string { return r.name }

// Tree implements TreeDriver.
func (r TreeReader) Tree() Tree { return r.tree }

// Discover reports the devices present. The error is that of ctx.
func (r TreeReader) Discover(ctx context.Context) (Report, error) {
	return r.discover(ctx, NewView(r.tree))
}

// DiscoverIn implements TreeDriver.
func (r TreeReader) DiscoverIn(ctx context.Context, view *View) (Report, error) {
	return r.discover(ctx, view)
}
