package discover

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// liveSysfs is where Linux mounts the sysfs of the machine itself.
const liveSysfs = "/sys"

// isLive reports whether a directory is the sysfs of this machine and not a copy.
func isLive(dir string) bool {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	resolved, err = filepath.Abs(resolved)
	return err == nil && resolved == liveSysfs
}

// mounts returns the block devices in use if a directory is the sysfs of this machine, for
// driver.Policy. Nil means that they are not known.
func mounts(dir string) []string {
	if !isLive(dir) {
		return nil
	}
	return hostMounts()
}

// hostMounts returns the block devices that this machine has mounted or swaps on, which
// sysfs does not show. Nil means that they are not known.
func hostMounts() []string {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // kernels without swap have no such file
		return nil
	}
	found := mountedDevices(mountinfo, swaps, kernelName)
	if found == nil {
		return nil
	}
	// The table of mounts has one of the devices of a btrfs; its directory lists all.
	members, err := filepath.Glob(liveSysfs + "/fs/btrfs/*/devices/*")
	if err != nil { // the pattern is well formed
		return nil
	}
	for _, member := range members {
		found = append(found, filepath.Base(member))
	}
	return found
}

// kernelName is the kernel's name of a device file: dm-0 of /dev/mapper/vg-root.
func kernelName(device string) string {
	if resolved, err := filepath.EvalSymlinks(device); err == nil {
		device = resolved
	}
	return filepath.Base(device)
}

// mountedDevices returns the block devices in the kernel's tables of mounts and swaps:
// each as MAJOR:MINOR, and by its name where a file of /dev is the source, since file systems
// over several devices have their own numbers. It returns nil if the root is not on a block
// device: a container sees its own mounts and not the host's.
func mountedDevices(mountinfo, swaps []byte, name func(device string) string) []string {
	var found []string
	add := func(device string) {
		if !slices.Contains(found, device) {
			found = append(found, device)
		}
	}
	hostRoot := false
	for text := range bytes.Lines(mountinfo) {
		before, after, _ := strings.Cut(string(text), " - ")
		// ID PARENT MAJOR:MINOR ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS
		mount, source := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(source) < 2 {
			continue
		}
		numbered, named := !strings.HasPrefix(mount[2], "0:"), strings.HasPrefix(source[1], "/dev/")
		if numbered {
			add(mount[2])
		}
		if named {
			add(name(unescape(source[1])))
		}
		hostRoot = hostRoot || mount[4] == "/" && (numbered || named)
	}
	if !hostRoot {
		return nil
	}
	for text := range bytes.Lines(swaps) {
		if f := strings.Fields(string(text)); len(f) > 1 && f[1] == "partition" {
			add(name(unescape(f[0])))
		}
	}
	return found
}

// unescape undoes the kernel's octal escapes of blanks in such tables.
func unescape(text string) string {
	return path.Clean(strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text))
}
