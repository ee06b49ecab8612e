package driver

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// PCIAddress is the place of one PCI function: domain, bus, device and function. The
// zero value is 0000:00:00.0.
type PCIAddress struct {
	Domain   uint32
	Bus      uint8
	Device   uint8 // 0 to 31
	Function uint8 // 0 to 7
}

// ParsePCIAddress reads the full form that the kernel writes, 0000:3b:00.0, in either
// case. Domains have four to eight digits: domains above ffff exist on machines whose storage
// controllers create their own bus domains. The error wraps ErrPCIAddress.
func ParsePCIAddress(text string) (PCIAddress, error) {
	domain, rest, ok1 := strings.Cut(text, ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	device, function, ok3 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || !ok3 || len(domain) < 4 {
		return PCIAddress{}, fmt.Errorf("%w %q: want dddd:bb:dd.f", ErrPCIAddress, text)
	}
	a, err := pciAddress(domain, bus, device, function)
	if err != nil || len(bus) != 2 || len(device) != 2 {
		return PCIAddress{}, fmt.Errorf("%w %q: want dddd:bb:dd.f", ErrPCIAddress, text)
	}
	return a, nil
}

// PCIAddressOf reads the four fields that PCI control paths and handles carry. Shorter
// fields than the kernel's are accepted, as upstream's fake driver writes them. The
// error wraps ErrPCIAddress and names the field.
func PCIAddressOf(info Info) (PCIAddress, error) {
	return pciAddress(info["domain"], info["bus"], info["device"], info["function"])
}

func pciAddress(domain, bus, device, function string) (PCIAddress, error) {
	fields := [4]struct {
		name, text string
		digits     int
		limit      uint64
	}{
		{"domain", domain, 8, 1<<32 - 1},
		{"bus", bus, 2, 0xff},
		{"device", device, 2, 0x1f},
		{"function", function, 1, 7},
	}
	var values [4]uint64
	for i, f := range fields {
		v, err := parseHex(f.text, f.digits)
		if err != nil || v > f.limit {
			return PCIAddress{}, fmt.Errorf("%w: %s %q", ErrPCIAddress, f.name, f.text)
		}
		values[i] = v
	}
	return PCIAddress{uint32(values[0]), uint8(values[1]), uint8(values[2]), uint8(values[3])}, nil
}

// unreachable says why no guest can have the function at the address, or "". The schema of libvirt
// takes domains of 32 bits, QEMU 7.2 and 10.0 refuse those above ffff.
func (a PCIAddress) unreachable() string {
	if a.Domain > math.MaxUint16 {
		return fmt.Sprintf("its PCI domain %x is above ffff, which QEMU refuses", a.Domain)
	}
	return ""
}

// parseHex reads at most the given number of plain hexadecimal digits: no sign, no
// prefix, no underscore.
func parseHex(text string, digits int) (uint64, error) {
	if len(text) > digits {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(text, 16, 64)
}

// String returns the kernel's form, 0000:3b:00.0.
func (a PCIAddress) String() string {
	text := make([]byte, 0, len("00000000:00:00.0"))
	text = appendHex(text, a.Domain, 4)
	text = appendHex(append(text, ':'), uint32(a.Bus), 2)
	text = appendHex(append(text, ':'), uint32(a.Device), 2)
	return string(strconv.AppendUint(append(text, '.'), uint64(a.Function), 10))
}

// appendHex writes a number with at least so many digits. Addresses are written often.
func appendHex(text []byte, n uint32, digits int) []byte {
	for limit := uint32(1) << (4 * (digits - 1)); n < limit && limit > 1; limit >>= 4 {
		text = append(text, '0')
	}
	return strconv.AppendUint(text, uint64(n), 16)
}

// Info returns the four fields of control paths and PCI attach handles: hexadecimal
// text without prefix, four, two, two and one digits wide.
func (a PCIAddress) Info() Info {
	return Info{
		"domain":   string(appendHex(nil, a.Domain, 4)),
		"bus":      string(appendHex(nil, uint32(a.Bus), 2)),
		"device":   string(appendHex(nil, uint32(a.Device), 2)),
		"function": strconv.Itoa(int(a.Function)),
	}
}

// ControlPath returns the control path of the function at the address.
func (a PCIAddress) ControlPath() ControlPath {
	return ControlPath{Type: ControlPathPCI, Info: a.Info()}
}

// Compare orders addresses by domain, bus, device and function.
func (a PCIAddress) Compare(b PCIAddress) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device), cmp.Compare(a.Function, b.Function))
}
