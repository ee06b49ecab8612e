package pci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
	"github.com/gocyborg/gocyborg/driver/internal/strictjson"
)

// wildcard stands for every value of a field.
const wildcard = "*"

// Spec is one entry of the whitelist. A function that fits all its fields is admitted;
// an empty field fits everything.
type Spec struct {
	// VendorID and ProductID are hexadecimal, or "*".
	VendorID  string `json:"vendor_id,omitempty"`
	ProductID string `json:"product_id,omitempty"`
	// Address is absent when DevName is given.
	Address *Address `json:"address,omitempty"`
	// DevName is a network interface, whose function is meant.
	DevName string `json:"devname,omitempty"`
}

// Address is where a function may be: a glob, or regular expressions for its parts.
type Address struct {
	// Glob has the form domain:bus:device.function, each a hexadecimal number or "*".
	// Parts may be left out from the left, as in "0a:00.*", and the function from the
	// right.
	Glob string
	// The expressions are matched at the beginning of the part; an empty one fits
	// everything. They count when Glob is empty.
	Domain, Bus, Slot, Function string
}

// addressParts is the JSON form of an address of expressions.
type addressParts struct {
	Domain   string `json:"domain,omitempty"`
	Bus      string `json:"bus,omitempty"`
	Slot     string `json:"slot,omitempty"`
	Function string `json:"function,omitempty"`
}

// UnmarshalJSON accepts a glob as a string, or an object of expressions.
func (a *Address) UnmarshalJSON(data []byte) error {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '"' {
		*a = Address{}
		return json.Unmarshal(trimmed, &a.Glob)
	}
	var parts addressParts
	if err := strictjson.Decode(data, &parts); err != nil {
		return fmt.Errorf("address: neither a string nor an object of expressions: %w", err)
	}
	*a = Address{Domain: parts.Domain, Bus: parts.Bus, Slot: parts.Slot, Function: parts.Function}
	return nil
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (a Address) MarshalJSON() ([]byte, error) {
	if a.Glob != "" {
		return json.Marshal(a.Glob)
	}
	return json.Marshal(addressParts{a.Domain, a.Bus, a.Slot, a.Function})
}

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

// matchers are the entries of a whitelist made ready.
type matchers []matcher

// admit returns the index of the first entry that admits a function, or -1.
func (m matchers) admit(f driver.PCIFunction, interfaces map[string]driver.PCIAddress) int {
	return slices.IndexFunc(m, func(entry matcher) bool { return entry.fits(f, interfaces) })
}

// matcher is a Spec made ready.
type matcher struct {
	vendor, product string // four digits or the wildcard
	address         addressMatcher
	devName         string
}

func newMatcher(s Spec) (matcher, error) {
	m := matcher{devName: s.DevName}
	var err error
	if m.vendor, err = hexField("vendor_id", s.VendorID, 4, 4); err != nil {
		return m, err
	}
	if m.product, err = hexField("product_id", s.ProductID, 4, 4); err != nil {
		return m, err
	}
	switch {
	case s.DevName != "" && s.Address != nil:
		return m, errors.New("devname and address exclude each other")
	case s.DevName != "" && !file.IsName(s.DevName):
		return m, fmt.Errorf("devname %q is no interface name", s.DevName)
	case s.Address == nil:
		return m, nil
	case s.Address.Glob != "":
		m.address, err = glob(s.Address.Glob)
	default:
		m.address, err = expressions(*s.Address)
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
	return (m.vendor == wildcard || m.vendor == f.VendorID()) &&
		(m.product == wildcard || m.product == f.ProductID()) && m.address.fits(f.Address)
}

// hexField normalises a hexadecimal field to at least the given width; an empty one is
// the wildcard.
func hexField(name, text string, width, most int) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == wildcard {
		return wildcard, nil
	}
	digits := strings.TrimPrefix(text, "0x")
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) > most {
		return "", fmt.Errorf("%s %q is neither * nor a hexadecimal number of at most %d digits", name, text, most)
	}
	return fmt.Sprintf("%0*x", width, v), nil
}

var partNames = [4]string{"domain", "bus", "slot", "function"}

// addressMatcher has an expression for each part of an address; nil fits everything.
type addressMatcher [4]*regexp.Regexp

func (m addressMatcher) fits(a driver.PCIAddress) bool {
	if m == (addressMatcher{}) {
		return true
	}
	info := a.Info()
	for i, part := range [4]string{info["domain"], info["bus"], info["device"], info["function"]} {
		if m[i] != nil && !m[i].MatchString(part) {
			return false
		}
	}
	return true
}

// glob makes a matcher of domain:bus:device.function.
func glob(text string) (m addressMatcher, err error) {
	place, function, _ := strings.Cut(text, ".")
	fields := strings.Split(place, ":")
	if len(fields) > 3 {
		return m, fmt.Errorf("address %q has more than domain, bus and device", text)
	}
	for len(fields) < 3 {
		fields = append([]string{wildcard}, fields...)
	}
	widths, most, last := [4]int{4, 2, 2, 1}, [4]int{8, 2, 2, 1}, [4]string{2: "1f", 3: "7"}
	for i, f := range append(fields, function) {
		want, err := hexField("address "+partNames[i], f, widths[i], most[i])
		switch {
		case err != nil:
			return m, err
		case want == wildcard:
			continue
		case last[i] != "" && want > last[i]:
			return m, fmt.Errorf("address %q: device above 1f or function above 7", text)
		}
		m[i] = regexp.MustCompile("^" + want + "$")
	}
	return m, nil
}

// expressions makes a matcher of regular expressions, each anchored at the beginning
// only, as upstream's are.
func expressions(a Address) (m addressMatcher, err error) {
	for i, text := range [4]string{a.Domain, a.Bus, a.Slot, a.Function} {
		if m[i], err = regexp.Compile("^(?:" + text + ")"); err != nil {
			return m, fmt.Errorf("address %s %q: %w", partNames[i], text, err)
		}
	}
	return m, nil
}
