package ssd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
)

// Spec names disks by all of its fields; one of them at least is set.
type Spec struct {
	// VendorID and ProductID are four hexadecimal digits; empty or "*": any.
	VendorID  string `json:"vendor_id,omitempty"`
	ProductID string `json:"product_id,omitempty"`
	// Address is a PCI address, or a pattern in the form of path.Match: 0000:3b:*.*, in either case. A
	// virtual function is named by the address of its physical function, too.
	Address string `json:"address,omitempty"`
}

// ParseDeviceSpec reads a value of [nvme] device_spec: a JSON object of Spec, or a list of
// such. Its options for cleaning, clear_action and clear_strategy, are ignored, because nothing is
// erased here. The error wraps driver.ErrConfig.
func ParseDeviceSpec(text string) ([]Spec, error) {
	type entry struct {
		Spec
		ClearAction   string `json:"clear_action"`
		ClearStrategy string `json:"clear_strategy"`
	}
	data := bytes.TrimSpace([]byte(text))
	if !bytes.HasPrefix(data, []byte("[")) {
		data = bytes.Join([][]byte{[]byte("["), data, []byte("]")}, nil)
	}
	var entries []entry
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&entries); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrConfig, err)
	}
	specs := make([]Spec, len(entries))
	for i, e := range entries {
		specs[i] = e.Spec
	}
	return specs, nil
}

// matcher is a checked Spec; zero ids match any.
type matcher struct {
	vendor, product uint16
	address         string // a pattern; empty: any
}

func (s Spec) matcher() (m matcher, err error) {
	if m.vendor, err = id(s.VendorID); err != nil {
		return m, fmt.Errorf("vendor_id: %w", err)
	}
	if m.product, err = id(s.ProductID); err != nil {
		return m, fmt.Errorf("product_id: %w", err)
	}
	if _, err := path.Match(s.Address, ""); err != nil {
		return m, fmt.Errorf("address %q: %w", s.Address, err)
	}
	m.address = strings.ToLower(s.Address)
	if m == (matcher{}) {
		return m, errors.New("it names no vendor, product or address")
	}
	return m, nil
}

func id(text string) (uint16, error) {
	if text == "" || text == "*" {
		return 0, nil
	}
	return pciid.Parse(text)
}

func (m matcher) matches(u driver.Unit) bool {
	card := u.Card()
	at, _ := path.Match(m.address, u.Address.String())
	above, _ := path.Match(m.address, card.Address.String())
	return (m.vendor == 0 || m.vendor == u.Vendor) && (m.product == 0 || m.product == u.Product || m.product == card.Product) &&
		(m.address == "" || at || above)
}
