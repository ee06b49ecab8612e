package spawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// duplicateName is Placement's answer to the second owner of a name:
// "Conflicting resource provider name: cn0_0000:3b:00.0 already exists."
var duplicateName = regexp.MustCompile(`(?i)conflicting resource provider (?:name|uuid): (\S+) already exists`)

// AsOwnerConflict turns an answer 409 of Placement to the creation of a provider
// that is there already into an [*OwnerConflictError]: two services report the
// same device. The claimant is who was refused. Other errors come back as they
// are. Any error that carries the server's text will do.
func AsOwnerConflict(err error, claimant string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var answer *PlacementError
	if errors.As(err, &answer) {
		text = answer.Detail
	}
	found := duplicateName.FindStringSubmatch(text)
	if found == nil {
		return err
	}
	return &OwnerConflictError{
		Address: providerAddress(strings.TrimSuffix(found[1], ".")), Owners: [2]string{"the owner of resource provider " + found[1], claimant}, Err: err,
	}
}

// pciSpec is one entry of [pci]device_spec as far as it names devices by their
// place.
type pciSpec struct {
	text     string
	patterns [4]pciPattern
	placed   bool
}

type pciPattern struct {
	glob  string         // "*", "0a", "00"
	regex *regexp.Regexp // of the form with an object of four
}

// UnmarshalJSON reads an object of device_spec: "address" is a text such as
// "0000:0a:00.*" or "*:0a:00.*", or an object of regular expressions by domain,
// bus, slot and function.
func (s *pciSpec) UnmarshalJSON(data []byte) error {
	var entry struct {
		Address json.RawMessage `json:"address"`
	}
	if err := json.Unmarshal(data, &entry); err != nil {
		return err
	}
	if string(data) == "null" {
		return errors.New("null is no device_spec")
	}
	fresh := pciSpec{text: string(data)}
	if len(entry.Address) > 0 {
		if err := fresh.readAddress(entry.Address); err != nil {
			return fmt.Errorf("address %s: %w", entry.Address, err)
		}
	}
	*s = fresh
	return nil
}

func (s *pciSpec) readAddress(data json.RawMessage) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return s.readGlob(text)
	}
	var parts map[string]string
	if err := json.Unmarshal(data, &parts); err != nil {
		return errors.New("neither a text nor an object of texts")
	}
	for i, key := range []string{"domain", "bus", "slot", "function"} {
		pattern, ok := parts[key]
		delete(parts, key)
		if !ok {
			pattern = ".*"
		}
		compiled, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			return err
		}
		s.patterns[i] = pciPattern{regex: compiled}
	}
	for key := range parts {
		return fmt.Errorf("unknown key %q", key)
	}
	s.placed = true
	return nil
}

var globForm = regexp.MustCompile(`^(?:([0-9a-fA-F]{1,8}|\*):)?([0-9a-fA-F]{1,2}|\*):([0-9a-fA-F]{1,2}|\*)\.([0-7]|\*)$`)

func (s *pciSpec) readGlob(text string) error {
	if text == "*" || text == "" {
		text = "*:*:*.*"
	}
	parts := globForm.FindStringSubmatch(text)
	if parts == nil {
		return errors.New("not of the form domain:bus:slot.function with * for any")
	}
	for i := range s.patterns {
		glob := parts[i+1]
		if glob == "" {
			glob = "*" // no domain
		}
		s.patterns[i] = pciPattern{glob: glob}
	}
	s.placed = true
	return nil
}

func (s pciSpec) matches(address [4]uint64) bool {
	if !s.placed {
		return false
	}
	widths := [4]int{4, 2, 2, 1}
	for i, pattern := range s.patterns {
		if !pattern.matches(address[i], widths[i]) {
			return false
		}
	}
	return true
}

func (p pciPattern) matches(value uint64, width int) bool {
	if p.regex != nil {
		return p.regex.MatchString(fmt.Sprintf("%0*x", width, value))
	}
	if p.glob == "*" {
		return true
	}
	n, err := strconv.ParseUint(p.glob, 16, 64)
	return err == nil && n == value
}

// parsePCISpecs reads one value of [pci]device_spec: an object or a list.
func parsePCISpecs(text string) ([]pciSpec, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(text, "[") {
		var specs []pciSpec
		err := json.Unmarshal([]byte(text), &specs)
		return specs, err
	}
	var spec pciSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, err
	}
	return []pciSpec{spec}, nil
}
