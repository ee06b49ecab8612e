package requestspec

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// maxAmount is Placement's own limit for an amount; more could never be allocated.
const maxAmount = math.MaxInt32

// maxName is Placement's limit for the name of a resource class or trait.
const maxName = 255

const (
	prefixResources = "resources"
	prefixTrait     = "trait"
	traitRequired   = "required"
	traitForbidden  = "forbidden"
	customPrefix    = "CUSTOM_"
)

var (
	// keyForm decides for flavors and profile groups alike. The suffix is
	// optional and anything may follow the first colon after it, so that
	// "traits:A" is trait A of a group "s".
	keyForm = regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$`)
	// strayForm finds keys that look meant for keyForm, or for a query
	// parameter that extra specs cannot set, and that Nova ignores in silence.
	strayForm  = regexp.MustCompile(`(?i)^\s*(resources?|traits?|others|member_of|in_tree|same_subtree|root_required)[a-z0-9_ -]*:`)
	customForm = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)
	traitForm  = regexp.MustCompile(`^[A-Z0-9_]+$`)
)

// specKey is a key of an extra spec or of a profile group, taken apart.
type specKey struct{ prefix, suffix, name string }

func parseKey(key string) (specKey, bool) {
	m := keyForm.FindStringSubmatch(key)
	if m == nil {
		return specKey{}, false
	}
	return specKey{prefix: m[1], suffix: m[2], name: m[3]}, true
}

var (
	errNotAmount = errors.New("not a nonnegative integer")
	errTooLarge  = errors.New("larger than 2147483647")
)

// parseAmount reads a resource amount: surrounding spaces and a leading plus
// are allowed, as in Python's int(); its underscores and foreign digits are not.
func parseAmount(value string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case n > maxAmount: // also what ParseInt answers when it ran out of range
		return 0, errTooLarge
	case err != nil || n < 0:
		return 0, errNotAmount
	}
	return int(n), nil
}

// standardClasses are the names of os-resource-classes.
var standardClasses = map[string]bool{
	"VCPU": true, "MEMORY_MB": true, "DISK_GB": true, "PCI_DEVICE": true,
	"SRIOV_NET_VF": true, "NUMA_SOCKET": true, "NUMA_CORE": true,
	"NUMA_THREAD": true, "NUMA_MEMORY_MB": true, "IPV4_ADDRESS": true,
	"VGPU": true, "VGPU_DISPLAY_HEAD": true,
	"NET_BW_EGR_KILOBIT_PER_SEC": true, "NET_BW_IGR_KILOBIT_PER_SEC": true,
	"PCPU": true, "MEM_ENCRYPTION_CONTEXT": true, "FPGA": true, "PGPU": true,
	"NET_PACKET_RATE_KILOPACKET_PER_SEC":     true,
	"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC": true,
	"NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC": true,
}

// acceptedClass is Nova's check of a flavor: of a custom class it looks at the
// prefix only.
func acceptedClass(name string) bool {
	return standardClasses[name] || strings.HasPrefix(name, customPrefix)
}

// validClass is what Placement can know at all.
func validClass(name string) bool {
	return standardClasses[name] || len(name) <= maxName && customForm.MatchString(name)
}

func validTrait(name string) bool {
	return len(name) <= maxName && traitForm.MatchString(name)
}
