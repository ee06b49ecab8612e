package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// PCIDevicesDir is the directory of sysfs with one entry per PCI function.
const PCIDevicesDir = "bus/pci/devices"

// PCIFunction identifies a PCI function.
type PCIFunction struct {
	Address PCIAddress
	Vendor  uint16
	Product uint16
	// Class has base class, subclass and interface in 24 bits: 0x030200.
	Class uint32
}

// Dir is the directory of the function in a Tree.
func (f PCIFunction) Dir() string { return PCIDevicesDir + "/" + f.Address.String() }

// VendorID returns the vendor as four hexadecimal digits in lower case.
func (f PCIFunction) VendorID() string { return fmt.Sprintf("%04x", f.Vendor) }

// ProductID returns the product as four hexadecimal digits in lower case.
func (f PCIFunction) ProductID() string { return fmt.Sprintf("%04x", f.Product) }

// DeviceClass returns base class and subclass, 0x0302.
func (f PCIFunction) DeviceClass() uint16 { return uint16(f.Class >> 8) }

// PCIFunctions lists the functions of a tree in the order of addresses. Entries whose
// name is no address and functions whose identity cannot be read become problems, and so
// does a missing bus. The error is that of ctx.
func PCIFunctions(ctx context.Context, tree Tree) ([]PCIFunction, []Problem, error) {
	if v, ok := tree.(*view); ok {
		return v.pciFunctions(ctx)
	}
	return pciFunctions(ctx, tree)
}

func pciFunctions(ctx context.Context, tree Tree) ([]PCIFunction, []Problem, error) {
	entries, err := tree.ReadDir(PCIDevicesDir)
	if err != nil {
		return nil, []Problem{{File: PCIDevicesDir, Err: Cause(err)}}, ctx.Err()
	}
	found, faults := make([]PCIFunction, len(entries)), make([]error, len(entries))
	forEachParallel(len(entries), func(i int) {
		if ctx.Err() == nil {
			found[i], faults[i] = readFunction(tree, entries[i].Name())
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
func readFunction(tree Tree, name string) (PCIFunction, error) {
	address, err := ParsePCIAddress(name)
	if err != nil || address.String() != name {
		return PCIFunction{}, Problem{Address: name, File: PCIDevicesDir + "/" + name, Err: fmt.Errorf("%w: the name is no PCI address", ErrPCIAddress)}
	}
	f := PCIFunction{Address: address}
	files := [...]string{"vendor", "device", "class"}
	digits := [...]int{4, 4, 6}
	var values [len(files)]uint64
	for i, file := range files {
		if values[i], err = readHex(tree, f.Dir()+"/"+file, digits[i]); err != nil {
			return f, Problem{Address: name, File: f.Dir() + "/" + file, Err: err}
		}
	}
	f.Vendor, f.Product, f.Class = uint16(values[0]), uint16(values[1]), uint32(values[2])
	return f, nil
}

// readHex reads a number written as 0x and exactly so many digits.
func readHex(tree Tree, path string, digits int) (uint64, error) {
	text, err := ReadText(tree, path)
	if err != nil {
		return 0, err
	}
	number, found := strings.CutPrefix(text, "0x")
	v, err := ParseHex(number, digits)
	if err != nil || !found || len(number) != digits {
		return 0, garbled(text)
	}
	return v, nil
}

// ReadText returns the content of a file without blanks and line ends around it. An
// empty file is an error, ErrGarbled. The path is left out of errors, since a Problem
// names it.
func ReadText(tree Tree, path string) (string, error) {
	data, err := tree.ReadFile(path)
	if err != nil {
		return "", Cause(err)
	}
	text := string(bytes.TrimSpace(data))
	if text == "" {
		return "", fmt.Errorf("%w: the file is empty", ErrGarbled)
	}
	return text, nil
}

// ReadCount reads a decimal number from 0 to limit. A number outside is ErrGarbled.
func ReadCount(tree Tree, path string, limit int) (int, error) {
	text, err := ReadText(tree, path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, garbled(text)
	}
	if n < 0 || n > limit {
		return 0, fmt.Errorf("%w: %d is not within 0 to %d", ErrGarbled, n, limit)
	}
	return n, nil
}

// garbled quotes at most the beginning of a text.
func garbled(text string) error {
	const most = 32
	if len(text) > most {
		return fmt.Errorf("%w: %q and %d bytes more", ErrGarbled, text[:most], len(text)-most)
	}
	return fmt.Errorf("%w: %q", ErrGarbled, text)
}

// Cause returns what a path error wraps, for a Problem, which names the file itself.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
