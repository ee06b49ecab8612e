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

// maxSuffix is the length of the longest suffix of a group.
const maxSuffix = 64

// specKey is a parsed key of an extra spec or of a profile group.
type specKey struct{ prefix, suffix, name string }

// parseKey parses a key of a flavor or of a profile group like Nova's expression
// ^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$. So "traits:A" is trait A of a
// group "s".
func parseKey(key string) (specKey, bool) {
	for _, prefix := range [...]string{prefixResources, prefixTrait} {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		suffix, name, ok := strings.Cut(rest, ":")
		if !ok || len(suffix) > maxSuffix || !onlyOf(suffix, isSuffixByte) || strings.IndexByte(name, '\n') >= 0 {
			return specKey{}, false
		}
		return specKey{prefix: prefix, suffix: suffix, name: name}, true
	}
	return specKey{}, false
}

func isSuffixByte(c byte) bool { return isNameByte(c) || c >= 'a' && c <= 'z' || c == '-' }

// isNameByte reports the characters of trait and class names.
func isNameByte(c byte) bool { return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' }

func onlyOf(text string, allowed func(byte) bool) bool {
	for i := range len(text) {
		if !allowed(text[i]) {
			return false
		}
	}
	return true
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

// validClass reports whether Placement can have the class.
func validClass(name string) bool {
	rest, custom := strings.CutPrefix(name, customPrefix)
	return standardClasses[name] || custom && rest != "" && len(name) <= maxName && onlyOf(rest, isNameByte)
}

func validTrait(name string) bool {
	return name != "" && len(name) <= maxName && onlyOf(name, isNameByte)
}
