package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver/internal/file"
	"github.com/gocyborg/gocyborg/driver/internal/parallel"
)

const pciDevicesDir = "bus/pci/devices"

// PCIFunction identifies a PCI function.
type PCIFunction struct {
	Address PCIAddress
	Vendor  uint16
	Product uint16
	// Class has base class, subclass and interface in 24 bits: 0x030200.
	Class uint32
}

// Dir is the directory of the function in a Tree.
func (f PCIFunction) Dir() string { return pciDevicesDir + "/" + f.Address.String() }

// VendorID returns the vendor as four hexadecimal digits in lower case.
func (f PCIFunction) VendorID() string { return fmt.Sprintf("%04x", f.Vendor) }

// ProductID returns the product as four hexadecimal digits in lower case.
func (f PCIFunction) ProductID() string { return fmt.Sprintf("%04x", f.Product) }

// DeviceClass returns base class and subclass, 0x0302.
func (f PCIFunction) DeviceClass() uint16 { return uint16(f.Class >> 8) }

func (v *View) readFunctions(ctx context.Context) ([]PCIFunction, []Problem, error) {
	entries, err := v.ReadDir(pciDevicesDir)
	if err != nil {
		return nil, nil, cmp.Or(ctx.Err(), fmt.Errorf("%s: %w", pciDevicesDir, file.Cause(err)))
	}
	found, faults := make([]PCIFunction, len(entries)), make([]error, len(entries))
	parallel.ForEach(len(entries), func(i int) {
		if ctx.Err() == nil {
			found[i], faults[i] = v.readFunction(entries[i].Name())
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	functions := make([]PCIFunction, 0, len(entries))
	var problems []Problem
	for i, f := range found {
		if faults[i] != nil {
			problems = append(problems, problemOf("", faults[i]))
			continue
		}
		functions = append(functions, f)
	}
	slices.SortFunc(functions, func(a, b PCIFunction) int { return a.Address.Compare(b.Address) })
	return functions, problems, ctx.Err()
}

// readFunction reads the identity of a function. The error is a Problem.
func (v *View) readFunction(name string) (PCIFunction, error) {
	address, err := ParsePCIAddress(name)
	if err != nil || address.String() != name {
		return PCIFunction{}, Problem{Address: name, File: pciDevicesDir + "/" + name, Err: fmt.Errorf("%w: the name is not a PCI address", ErrPCIAddress)}
	}
	f := PCIFunction{Address: address}
	files := [...]string{"vendor", "device", "class"}
	digits := [...]int{4, 4, 6}
	var values [len(files)]uint64
	for i, file := range files {
		if values[i], err = v.readHex(f.Dir()+"/"+file, digits[i]); err != nil {
			return f, Problem{Address: name, File: f.Dir() + "/" + file, Err: err}
		}
	}
	f.Vendor, f.Product, f.Class = uint16(values[0]), uint16(values[1]), uint32(values[2])
	return f, nil
}

// readHex reads a number written as 0x and exactly so many digits.
func (v *View) readHex(path string, digits int) (uint64, error) {
	text, err := v.ReadText(path)
	if err != nil {
		return 0, err
	}
	number, found := strings.CutPrefix(text, "0x")
	value, err := parseHex(number, digits)
	if err != nil || !found || len(number) != digits {
		return 0, garbled(text)
	}
	return value, nil
}

// garbled quotes at most the beginning of a text.
func garbled(text string) error {
	const most = 32
	if len(text) > most {
		return fmt.Errorf("%w: %q and %d bytes more", ErrGarbled, text[:most], len(text)-most)
	}
	return fmt.Errorf("%w: %q", ErrGarbled, text)
}
