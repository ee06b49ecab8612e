package spawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/domainxml"
)

// ErrOwnerConflict: one device has two owners. Every [*OwnerConflictError] is
// one.
var ErrOwnerConflict = errors.New("device with two owners")

// OwnerConflictError names a device that two parties take for theirs: Nova by
// its PCI configuration, its domain or its instance, and Cyborg by an ARQ. It
// matches ErrOwnerConflict and its cause.
type OwnerConflictError struct {
	// Address is the PCI address of the device, or the name of its resource
	// provider where no address is known.
	Address string
	// Owners are who has the device, and who was to get it.
	Owners [2]string
	// Err is what showed the conflict; nil when this package noticed it.
	Err error
}

// Error names the device and both owners.
func (e *OwnerConflictError) Error() string {
	text := fmt.Sprintf("%v: %s belongs to %s and to %s", ErrOwnerConflict, e.Address, e.Owners[0], e.Owners[1])
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives ErrOwnerConflict and the cause.
func (e *OwnerConflictError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrOwnerConflict}
	}
	return []error{ErrOwnerConflict, e.Err}
}

// addressInName finds the PCI address in the name of a provider: Cyborg and
// Nova's PCI tracking write HOST_0000:3b:00.0, Nova's vGPUs
// HOST_pci_0000_3b_00_0.
var addressInName = regexp.MustCompile(`([0-9a-f]{4})[:_]([0-9a-f]{2})[:_]([0-9a-f]{2})[._]([0-7])$`)

func providerAddress(name string) string {
	if part := addressInName.FindStringSubmatch(name); part != nil {
		return part[1] + ":" + part[2] + ":" + part[3] + "." + part[4]
	}
	return name
}

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

// inventoryConflict finds the provider in the refusal of a claim: "Unable to
// create allocation for 'PGPU' on resource provider '<uuid>'".
var inventoryConflict = regexp.MustCompile(`on resource provider '([0-9a-f-]{36})'`)

// claimConflict tells of a refused claim who has the device. It asks Placement;
// when that fails, or when it was not a device that was short, the error stays
// as it is.
func (a *Attempt) claimConflict(ctx context.Context, err error) error {
	var answer *PlacementError
	if !errors.As(err, &answer) || answer.Status != http.StatusConflict {
		return err
	}
	found := inventoryConflict.FindStringSubmatch(answer.Detail)
	if found == nil || !a.isDeviceProvider(found[1]) {
		return err
	}
	holders, holdersErr := a.flow.placement.consumersOf(ctx, found[1])
	name, nameErr := a.flow.placement.providerName(ctx, found[1])
	if holdersErr != nil || nameErr != nil || len(holders) == 0 {
		return err
	}
	return &OwnerConflictError{
		Address: providerAddress(name), Err: err,
		Owners: [2]string{"instance " + strings.Join(holders, ", "), "instance " + a.Request.Instance},
	}
}

// isDeviceProvider reports whether the claim wanted a device of the provider.
func (a *Attempt) isDeviceProvider(provider string) bool {
	for id, providers := range a.claim.wanted.Mappings {
		for _, p := range providers {
			if p == provider && isProfileGroup(id) {
				return true
			}
		}
	}
	return false
}

// ownedByNova judges the devices of the ARQs by Nova's PCI configuration.
func (a *Attempt) ownedByNova() error {
	for _, arq := range a.ARQs {
		if arq.AttachHandleType == cyborgclient.HandleTestPCI {
			continue
		}
		address, ok := handleAddress(arq.AttachHandleInfo)
		if !ok {
			continue // domainxml tells what is wrong with it
		}
		for _, spec := range a.flow.novaPCI {
			if spec.matches(address) {
				return &OwnerConflictError{
					Address: pciText(address),
					Owners:  [2]string{"Nova ([pci]device_spec " + spec.text + " of host " + a.Host + ")", "ARQ " + arq.UUID},
				}
			}
		}
	}
	return nil
}

// domainConflict turns a device that the domain has already into a conflict of
// owners: what is in the domain is Nova's.
func (a *Attempt) domainConflict(err error) error {
	var duplicate *domainxml.DuplicateError
	if !errors.As(err, &duplicate) {
		return err
	}
	_, address, _ := strings.Cut(duplicate.Device, " ") // "pci 0000:3b:00.0"
	return &OwnerConflictError{
		Address: address, Err: err,
		Owners: [2]string{duplicate.Holder + " (instance " + a.Request.Instance + ")", "ARQ " + duplicate.ARQ},
	}
}

// handleAddress reads domain, bus, device and function of a handle.
func handleAddress(info map[string]any) (address [4]uint64, ok bool) {
	for i, key := range []string{"domain", "bus", "device", "function"} {
		switch value := info[key].(type) {
		case string:
			n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(value), "0x"), 16, 32)
			if err != nil {
				return address, false
			}
			address[i] = n
		case float64:
			address[i] = uint64(value)
		default:
			return address, false
		}
	}
	return address, true
}

func pciText(a [4]uint64) string { return fmt.Sprintf("%04x:%02x:%02x.%x", a[0], a[1], a[2], a[3]) }

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
