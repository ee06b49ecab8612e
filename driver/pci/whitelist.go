package pci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
	"github.com/gocyborg/gocyborg/internal/devicespec"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// Spec is one entry of the whitelist. A function that fits all its fields is admitted;
// an empty field fits everything.
type Spec struct {
	// VendorID and ProductID are hexadecimal, or "*".
	VendorID  string `json:"vendor_id,omitempty"`
	ProductID string `json:"product_id,omitempty"`
	// Address is absent when DevName is given.
	Address *AddressPattern `json:"address,omitempty"`
	// DevName is a network interface, whose function is meant.
	DevName string `json:"devname,omitempty"`
	// Managed false is for functions that must keep their kernel driver, such as a vfio variant
	// driver: their handles have "managed": "false". It is a tag of Nova's [pci] device_spec,
	// which upstream's driver does not have.
	Managed *Managed `json:"managed,omitempty"`
}

// Managed is a boolean. It decodes from one, or from a text that Nova takes for one: "no", "False", "1".
type Managed bool

// UnmarshalJSON implements json.Unmarshaler.
func (m *Managed) UnmarshalJSON(data []byte) error {
	text := string(data)
	if err := json.Unmarshal(data, &text); err != nil && text != "true" && text != "false" {
		return fmt.Errorf("managed: %s is not a boolean", data)
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "t", "yes", "y", "on", "1":
		*m = true
	case "false", "f", "no", "n", "off", "0":
		*m = false
	default:
		return fmt.Errorf("managed: %s is not a boolean", data)
	}
	return nil
}

// AddressPattern is where a function may be: a glob, or regular expressions for its parts.
type AddressPattern struct {
	// Glob has the form domain:bus:device.function, each a hexadecimal number or "*".
	// Parts may be left out from the left, as in "0a:00.*", and the function from the
	// right.
	Glob string
	// The expressions are matched at the beginning of the part; an empty one fits
	// everything. They count when Glob is empty.
	Domain, Bus, Slot, Function string
}

// UnmarshalJSON accepts a glob as a string, or an object of expressions.
func (a *AddressPattern) UnmarshalJSON(data []byte) error {
	return (*devicespec.Address)(a).UnmarshalJSON(data)
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (a AddressPattern) MarshalJSON() ([]byte, error) { return devicespec.Address(a).MarshalJSON() }

// Whitelist is a list of entries. It decodes from what upstream's multi-valued option
// takes: an object, a list of objects, or a list of the JSON texts of either.
type Whitelist []Spec

// UnmarshalJSON implements json.Unmarshaler.
func (w *Whitelist) UnmarshalJSON(data []byte) error {
	*w = Whitelist{}
	return w.add(data, 0)
}

// ParseWhitelist reads the value of one passthrough_whitelist option: the JSON text of
// an object or of a list of objects. The error wraps driver.ErrConfig.
func ParseWhitelist(text string) (Whitelist, error) {
	w := Whitelist{}
	if err := w.add([]byte(text), 0); err != nil {
		return nil, fmt.Errorf("%w: passthrough_whitelist: %w", driver.ErrConfig, err)
	}
	return w, nil
}

const maxNesting = 4 // a list of texts of lists of objects has three levels

func (w *Whitelist) add(data []byte, level int) error {
	data = bytes.TrimSpace(data)
	if level > maxNesting || len(data) == 0 {
		return errors.New("neither an object nor a list of objects")
	}
	switch data[0] {
	case '[':
		return w.addList(data, level)
	case '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		return w.add([]byte(text), level+1)
	case '{':
		var spec Spec
		if err := strictjson.Decode(data, &spec); err != nil {
			return err
		}
		*w = append(*w, spec)
		return nil
	}
	return errors.New("neither an object nor a list of objects")
}

func (w *Whitelist) addList(data []byte, level int) error {
	var list []json.RawMessage
	if err := strictjson.Decode(data, &list); err != nil {
		return err
	}
	for i, item := range list {
		if err := w.add(item, level+1); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

// Check checks the entries; the error wraps driver.ErrConfig and names
// the entry.
func (w Whitelist) Check() error {
	_, err := w.matchers()
	return err
}

// Match returns the index of the first entry that admits a function, or -1. An entry with
// the name of a network interface admits none, since no tree is read. The error wraps
// driver.ErrConfig.
func (w Whitelist) Match(f driver.PCIFunction) (int, error) {
	m, err := w.matchers()
	return m.admit(f, nil), err
}

func (w Whitelist) matchers() (matchers, error) {
	var list matchers
	for i, spec := range w {
		m, err := newMatcher(spec)
		if err != nil {
			return nil, fmt.Errorf("%w: passthrough_whitelist entry %d: %w", driver.ErrConfig, i, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// matchers are the compiled entries of a whitelist.
type matchers []matcher

// admit returns the index of the first entry that admits a function, or -1.
func (m matchers) admit(f driver.PCIFunction, interfaces map[string]driver.PCIAddress) int {
	return slices.IndexFunc(m, func(entry matcher) bool { return entry.fits(f, interfaces) })
}

// matcher is a Spec made ready.
type matcher struct {
	vendor, product string // four digits or devicespec.Any
	address         devicespec.Pattern
	devName         string
	unmanaged       bool
}

func newMatcher(s Spec) (matcher, error) {
	m := matcher{devName: s.DevName, unmanaged: s.Managed != nil && !bool(*s.Managed)}
	var err error
	if m.vendor, err = devicespec.Hex("vendor_id", s.VendorID, 4, 0xffff); err != nil {
		return m, err
	}
	if m.product, err = devicespec.Hex("product_id", s.ProductID, 4, 0xffff); err != nil {
		return m, err
	}
	switch {
	case s.DevName != "" && s.Address != nil:
		return m, errors.New("devname and address exclude each other")
	case s.DevName != "" && !file.IsName(s.DevName):
		return m, fmt.Errorf("devname %q is not an interface name", s.DevName)
	case s.Address != nil:
		m.address, err = devicespec.Address(*s.Address).Pattern()
	}
	return m, err
}

// fits expects the interface's address where the entry names an interface.
func (m matcher) fits(f driver.PCIFunction, interfaces map[string]driver.PCIAddress) bool {
	if m.devName != "" {
		if at, ok := interfaces[m.devName]; !ok || at != f.Address {
			return false
		}
	}
	return (m.vendor == devicespec.Any || m.vendor == f.VendorID()) &&
		(m.product == devicespec.Any || m.product == f.ProductID()) &&
		m.address.Match(uint(f.Address.Domain), uint(f.Address.Bus), uint(f.Address.Device), uint(f.Address.Function))
}
