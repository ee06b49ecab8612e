package driver

import (
	"fmt"
	"strings"
)

const (
	customPrefix = "CUSTOM_"
	maxName      = 255 // Placement's limit for traits and resource classes
)

// CustomName builds the name of a custom trait or resource class: CUSTOM_ and the parts,
// joined by underscores. Parts are upper-cased, blanks and hyphens become underscores,
// as the drivers of upstream do; any other character than A-Z, 0-9 and underscore is
// refused. The error wraps ErrName and shows the offending character.
func CustomName(parts ...string) (string, error) {
	names := make([]string, 0, len(parts))
	for _, part := range parts {
		name, err := namePart(part)
		if err != nil {
			return "", err
		}
		names = append(names, name)
	}
	name := customPrefix + strings.Join(names, "_")
	if len(name) > maxName {
		return "", fmt.Errorf("%w %q: %d characters, the most is %d", ErrName, name, len(name), maxName)
	}
	return name, nil
}

var withUnderscores = strings.NewReplacer(" ", "_", "-", "_")

// namePart normalises one part of a custom name by the rules of CustomName. An empty
// part is refused.
func namePart(part string) (string, error) {
	if part == "" {
		return "", fmt.Errorf("%w: empty part", ErrName)
	}
	name := strings.ToUpper(withUnderscores.Replace(part))
	if r, bad := illegalRune(name); bad {
		return "", fmt.Errorf("%w %q: character %q is not allowed", ErrName, part, r)
	}
	return name, nil
}

// illegalRune returns the first character that Placement refuses in a name.
func illegalRune(name string) (rune, bool) {
	for _, r := range name {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' {
			return r, true
		}
	}
	return 0, false
}

// CheckTrait checks the name of a trait as Placement does: A-Z, 0-9 and underscore. It does
// not check that a standard trait exists. The error wraps ErrName.
func CheckTrait(name string) error {
	return checkName("trait", name)
}

// CheckResourceClass is CheckTrait for resource classes; a name without the CUSTOM_
// prefix must be one of the standard classes that accelerators use, or of the others of
// os-resource-classes.
func CheckResourceClass(name string) error {
	if err := checkName("resource class", name); err != nil {
		return err
	}
	if !strings.HasPrefix(name, customPrefix) && !standardClass(name) {
		return fmt.Errorf("%w: resource class %q is neither standard nor CUSTOM_", ErrName, name)
	}
	return nil
}

func checkName(kind, name string) error {
	if name == "" || name == customPrefix {
		return fmt.Errorf("%w: %s %q is empty", ErrName, kind, name)
	}
	if len(name) > maxName {
		return fmt.Errorf("%w: %s of %d characters, the most is %d", ErrName, kind, len(name), maxName)
	}
	if r, bad := illegalRune(name); bad {
		return fmt.Errorf("%w: %s %q: character %q is not allowed", ErrName, kind, name, r)
	}
	return nil
}

// standardClass knows the classes of os-resource-classes.
func standardClass(name string) bool {
	switch name {
	case "FPGA", "PGPU", "VGPU", "VGPU_DISPLAY_HEAD", "PCI_DEVICE", "SRIOV_NET_VF",
		"VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "MEM_ENCRYPTION_CONTEXT",
		"NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB", "IPV4_ADDRESS",
		"NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC",
		"NET_PACKET_RATE_KILOPACKET_PER_SEC",
		"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC", "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC":
		return true
	}
	return false
}
