package pcispec

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/gocyborg/gocyborg/domainxml"
)

// Spec is one entry of [pci]device_spec.
type Spec struct {
	text     string
	patterns *[4]*regexp.Regexp // domain, bus, slot, function; nil without an address
}

// widths are the hexadecimal digits of domain, bus, slot and function.
var widths = [4]int{4, 2, 2, 1}

// Parse reads one value of the option: an object or a list of objects. An empty
// text has no entries.
func Parse(text string) ([]Spec, error) {
	text = strings.TrimSpace(text)
	var specs []Spec
	switch {
	case text == "":
		return nil, nil
	case !strings.HasPrefix(text, "["):
		text = "[" + text + "]"
	}
	err := json.Unmarshal([]byte(text), &specs)
	return specs, err
}

// String returns the entry as it was written.
func (s Spec) String() string { return s.text }

// UnmarshalJSON reads one entry: "address" is a text such as "0000:0a:00.*" or
// "0a:00.*", or an object of regular expressions by domain, bus, slot and function.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var entry struct {
		Address json.RawMessage `json:"address"`
	}
	if err := json.Unmarshal(data, &entry); err != nil {
		return err
	}
	if string(data) == "null" {
		return errors.New("null is not a device_spec")
	}
	*s = Spec{text: string(data)}
	if len(entry.Address) == 0 {
		return nil
	}
	var err error
	if s.patterns, err = readAddress(entry.Address); err != nil {
		return fmt.Errorf("address %s: %w", entry.Address, err)
	}
	return nil
}

func readAddress(data json.RawMessage) (*[4]*regexp.Regexp, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return readGlob(text)
	}
	var parts map[string]string
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, errors.New("neither a text nor an object of texts")
	}
	var patterns [4]*regexp.Regexp
	for i, key := range []string{"domain", "bus", "slot", "function"} {
		pattern, ok := parts[key]
		delete(parts, key)
		if !ok {
			pattern = ".*"
		}
		var err error
		if patterns[i], err = regexp.Compile("^(?:" + pattern + ")$"); err != nil {
			return nil, err
		}
	}
	for key := range parts {
		return nil, fmt.Errorf("unknown key %q", key)
	}
	return &patterns, nil
}

var globForm = regexp.MustCompile(`^(?:([0-9a-fA-F]{1,8}|\*):)?([0-9a-fA-F]{1,2}|\*):([0-9a-fA-F]{1,2}|\*)\.([0-7]|\*)$`)

func readGlob(text string) (*[4]*regexp.Regexp, error) {
	if text == "*" || text == "" {
		text = "*:*:*.*"
	}
	parts := globForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, errors.New("not of the form domain:bus:slot.function with * for any")
	}
	var patterns [4]*regexp.Regexp
	for i := range patterns {
		pattern := ".*"
		if digits := strings.ToLower(parts[i+1]); digits != "" && digits != "*" {
			digits = strings.TrimLeft(digits, "0")
			pattern = strings.Repeat("0", max(0, widths[i]-len(digits))) + digits
		}
		patterns[i] = regexp.MustCompile("^" + pattern + "$")
	}
	return &patterns, nil
}

// Matches reports whether the entry names a device by its address.
func (s Spec) Matches(a domainxml.PCIAddress) bool {
	if s.patterns == nil {
		return false
	}
	for i, value := range []uint{a.Domain, a.Bus, a.Slot, a.Function} {
		if !s.patterns[i].MatchString(fmt.Sprintf("%0*x", widths[i], value)) {
			return false
		}
	}
	return true
}
