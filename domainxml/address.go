package domainxml

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// PCIAddress is the host address of a PCI function.
type PCIAddress struct {
	Domain   uint // 16 bits in a handle; libvirt takes 32
	Bus      uint // 8 bits
	Slot     uint // 5 bits; Cyborg calls it "device"
	Function uint // 3 bits
}

// String returns the address in the form of the kernel: 0000:3b:00.0.
func (a PCIAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Slot, a.Function)
}

// validate checks the widths of the fields. libvirt accepts 32 bits for the domain.
func (a PCIAddress) validate() error {
	for _, f := range []struct {
		name  string
		value uint
		bits  int
	}{{"domain", a.Domain, 32}, {"bus", a.Bus, 8}, {"slot", a.Slot, 5}, {"function", a.Function, 3}} {
		if uint64(f.value) >= 1<<f.bits {
			return fmt.Errorf("PCI address %s: %s does not fit in %d bits", a, f.name, f.bits)
		}
	}
	return nil
}

func (a PCIAddress) element() *libvirtxml.DomainAddressPCI {
	return &libvirtxml.DomainAddressPCI{Domain: &a.Domain, Bus: &a.Bus, Slot: &a.Slot, Function: &a.Function}
}

// addressOf reads libvirt's form. An absent number is zero, as in libvirt's
// virPCIDeviceAddressParseXML.
func addressOf(e *libvirtxml.DomainAddressPCI) (PCIAddress, error) {
	if e == nil {
		return PCIAddress{}, errors.New("no PCI source address")
	}
	number := func(p *uint) uint {
		if p == nil {
			return 0
		}
		return *p
	}
	a := PCIAddress{number(e.Domain), number(e.Bus), number(e.Slot), number(e.Function)}
	return a, a.validate()
}

var errMissing = errors.New("missing")

// hexField reads a number of a handle's info: a hexadecimal string with or without
// 0x, in any case, or a JSON number. Padding is ignored, because it differs between Cyborg's drivers.
func hexField(value any, bits int) (uint, error) {
	var n uint64
	var err error
	switch v := value.(type) {
	case nil:
		return 0, errMissing
	case string:
		n, err = parseHex(v)
	case json.Number:
		f, bad := v.Float64()
		if bad != nil {
			return 0, fmt.Errorf("%q is not a number", shortened(string(v)))
		}
		n, err = whole(f)
	case float64:
		n, err = whole(v)
	case int:
		n, err = whole(float64(v))
	default:
		return 0, fmt.Errorf("want a hexadecimal string, got a value of type %T", value)
	}
	if err != nil {
		return 0, err
	}
	if n >= 1<<bits {
		return 0, fmt.Errorf("%v does not fit in %d bits", quoted(value), bits)
	}
	return uint(n), nil
}

func parseHex(text string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxUint64, nil // refused because of its width, with a better error
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a hexadecimal number", shortened(text))
	}
	return n, nil
}

func whole(f float64) (uint64, error) {
	if f < 0 || f != math.Trunc(f) || f > math.MaxUint32 {
		return 0, fmt.Errorf("%v is not an integer in the range of an address", f)
	}
	return uint64(f), nil
}

func quoted(value any) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(shortened(text))
	}
	return fmt.Sprint(value)
}

// shortened truncates text for messages.
func shortened(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
