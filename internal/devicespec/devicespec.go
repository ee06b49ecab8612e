package devicespec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
)

// Any matches every value of a field.
const Any = "*"

// OfNova iterates over the values of a nova.conf, with the names of their options: device_spec and its former names.
// Each may be given many times; all returns the values of an option of a section.
func OfNova(all func(section, option string) []string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, option := range [][2]string{
			{"pci", "device_spec"}, {"pci", "passthrough_whitelist"}, {"DEFAULT", "pci_passthrough_whitelist"},
		} {
			for _, value := range all(option[0], option[1]) {
				if !yield(fmt.Sprintf("[%s] %s", option[0], option[1]), value) {
					return
				}
			}
		}
	}
}

// Entries returns the entries of one value of the option: an object or a list of objects.
func Entries(text string) ([]json.RawMessage, error) {
	var value json.RawMessage
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("neither an object nor a list of objects in JSON: %w", err)
	}
	list := []json.RawMessage{value}
	if value[0] == '[' {
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
	}
	for _, entry := range list {
		if entry[0] != '{' {
			return nil, errors.New("neither an object nor a list of objects in JSON")
		}
	}
	return list, nil
}

// Hex returns the hexadecimal number of a field in lower case, with leading zeros up to the
// width, or Any. An empty field is Any. The error names the field.
func Hex(name, text string, width int, most uint64) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == Any {
		return Any, nil
	}
	value, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil || value > most {
		return "", fmt.Errorf("%s %q is neither * nor a hexadecimal number up to %x", name, text, most)
	}
	return fmt.Sprintf("%0*x", width, value), nil
}

// Address is where a function may be: a glob, or regular expressions for its parts.
type Address struct {
	// Glob has the form domain:bus:slot.function, each a hexadecimal number or "*". Parts
	// may be left out from the left, and the function from the right.
	Glob string `json:"-"`
	// The expressions count when Glob is empty; an empty one fits everything.
	Domain   string `json:"domain,omitempty"`
	Bus      string `json:"bus,omitempty"`
	Slot     string `json:"slot,omitempty"`
	Function string `json:"function,omitempty"`
}

// UnmarshalJSON accepts a glob as a string, or an object of expressions.
func (a *Address) UnmarshalJSON(data []byte) error {
	*a = Address{}
	if json.Unmarshal(data, &a.Glob) == nil {
		return nil
	}
	type expressions Address
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*expressions)(a)); err != nil {
		return fmt.Errorf("address: neither a string nor an object of expressions: %w", err)
	}
	return nil
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (a Address) MarshalJSON() ([]byte, error) {
	if a.Glob != "" {
		return json.Marshal(a.Glob)
	}
	type expressions Address
	return json.Marshal(expressions(a))
}

// Pattern makes the address ready. The error names the part that is wrong.
func (a Address) Pattern() (Pattern, error) {
	texts := [4]string{a.Domain, a.Bus, a.Slot, a.Function}
	var p Pattern
	var err error
	if a.Glob != "" {
		if texts, err = globExpressions(a.Glob); err != nil {
			return p, err
		}
	}
	for i, text := range texts {
		if text == "" {
			continue
		}
		if p[i], err = regexp.Compile(text); err != nil {
			return p, fmt.Errorf("address %s %q: %w", parts[i].name, text, err)
		}
	}
	return p, nil
}

var parts = [4]struct {
	name  string
	width int // digits that are always written
	most  uint64
}{{"domain", 4, 0xffffffff}, {"bus", 2, 0xff}, {"slot", 2, 0x1f}, {"function", 1, 7}}

// globExpressions returns the expressions that mean the same as a glob.
func globExpressions(glob string) (texts [4]string, err error) {
	place, function, _ := strings.Cut(glob, ".")
	fields := append(strings.Split(place, ":"), function)
	omitted := len(parts) - len(fields)
	if omitted < 0 {
		return texts, fmt.Errorf("address %q has more than domain, bus and slot", glob)
	}
	for i, field := range fields {
		part := parts[omitted+i]
		value, err := Hex("address "+part.name, field, part.width, part.most)
		if err != nil {
			return texts, err
		}
		if value != Any {
			texts[omitted+i] = value + "$"
		}
	}
	return texts, nil
}

// Pattern has an expression for domain, bus, slot and function; nil fits everything.
type Pattern [4]*regexp.Regexp

// Match reports whether a function is where the pattern says.
func (p Pattern) Match(domain, bus, slot, function uint) bool {
	for i, value := range [4]uint{domain, bus, slot, function} {
		if p[i] == nil {
			continue
		}
		at := p[i].FindStringIndex(fmt.Sprintf("%0*x", parts[i].width, value))
		if at == nil || at[0] > 0 {
			return false
		}
	}
	return true
}
