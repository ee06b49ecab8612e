package file

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	nvmePath       = regexp.MustCompile(`^(nvme[0-9]+)c[0-9]+(n[0-9]+)$`)
	nvmeController = regexp.MustCompile(`^nvme[0-9]+$`)
	nvmeNamespace  = regexp.MustCompile(`^nvme[0-9]+(c[0-9]+)?n[0-9]+$`)
)

// NVMeHead returns the disk that one path of a multipath NVMe device belongs to: nvme0n1 of
// nvme0c1n1.
func NVMeHead(name string) (head string, isPath bool) {
	parts := nvmePath.FindStringSubmatch(name)
	if parts == nil {
		return "", false
	}
	return parts[1] + parts[2], true
}

// IsNVMeController reports whether a name is the name of an NVMe controller, such as nvme0.
func IsNVMeController(name string) bool { return nvmeController.MatchString(name) }

// IsNVMeNamespace reports whether a name is the name of an NVMe namespace or of a path to one.
func IsNVMeNamespace(name string) bool { return nvmeNamespace.MatchString(name) }

// IsDeviceNumber reports whether a text is MAJOR:MINOR.
func IsDeviceNumber(text string) bool {
	major, minor, found := strings.Cut(text, ":")
	_, err1 := strconv.ParseUint(major, 10, 32)
	_, err2 := strconv.ParseUint(minor, 10, 32)
	return found && err1 == nil && err2 == nil
}
