package requestspec

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// maxAmount is Placement's limit for an amount.
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

// strayForm matches keys that Nova ignores although they resemble those of
// parseKey, or a query parameter that extra specs cannot set.
var strayForm = regexp.MustCompile(`(?i)^\s*(resources?|traits?|others|member_of|in_tree|same_subtree|root_required)[a-z0-9_ -]*:`)

// Nova's expressions for the keys of a flavor or of a profile group. The first is that
// of strings, by which "traits:A" is trait A of a group "s"; the second that of releases
// before Ussuri, whose suffixes are integers from 1.
var (
	stringForm  = regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$`)
	numericForm = regexp.MustCompile(`^(resources|trait)([1-9][0-9]{0,8})?:(.*)$`)
)

// specKey is a parsed key of an extra spec or of a profile group.
type specKey struct{ prefix, suffix, name string }

func parseKey(key string) (specKey, bool) { return parseKeyAs(stringForm, key) }

func parseKeyAs(form *regexp.Regexp, key string) (specKey, bool) {
	m := form.FindStringSubmatch(key)
	if m == nil {
		return specKey{}, false
	}
	return specKey{prefix: m[1], suffix: m[2], name: m[3]}, true
}

var (
	errNotAmount = errors.New("not a nonnegative integer")
	errTooLarge  = errors.New("larger than 2147483647")
)

// parseAmount parses a resource amount. As in Python's int(), surrounding spaces
// and a leading plus are accepted, but not underscores and non-ASCII digits.
func parseAmount(value string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case n > maxAmount: // also the result of ParseInt when it is out of range
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

// acceptedClass is Nova's check of a flavor, which checks only the prefix of a
// custom class.
func acceptedClass(name string) bool {
	return standardClasses[name] || strings.HasPrefix(name, customPrefix)
}

var (
	traitForm       = regexp.MustCompile(`^[A-Z0-9_]+$`)
	customClassForm = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)
)

// validClass reports whether Placement can have the class.
func validClass(name string) bool {
	return standardClasses[name] || customClassForm.MatchString(name) && len(name) <= maxName
}

func validTrait(name string) bool { return traitForm.MatchString(name) && len(name) <= maxName }
