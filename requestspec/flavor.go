package requestspec

import "fmt"

// Flavor is the part of a Nova flavor that determines the query.
type Flavor struct {
	// Name is only used in messages.
	Name string `json:"name"`
	// VCPUs is the number of virtual CPUs.
	VCPUs int `json:"vcpus"`
	// MemoryMB is the memory in MiB.
	MemoryMB int `json:"ram"`
	// RootGB is the root disk in GiB; not requested when booting from a volume.
	RootGB int `json:"disk"`
	// EphemeralGB is the ephemeral disk in GiB.
	EphemeralGB int `json:"ephemeral,omitempty"`
	// SwapMB is the swap disk in MiB, rounded up to GiB in the request.
	SwapMB int `json:"swap,omitempty"`
	// ExtraSpecs are the flavor's extra specs, by key.
	ExtraSpecs map[string]string `json:"extra_specs,omitempty"`
}

// DeviceProfile returns the name of the flavor's device profile. As in Nova, an
// empty name means none.
func (f Flavor) DeviceProfile() (name string, ok bool) {
	name = f.ExtraSpecs[DeviceProfileKey]
	return name, name != ""
}

// errorf wraps [ErrInvalidFlavor] and names the flavor.
func (f Flavor) errorf(format string, args ...any) error {
	return fmt.Errorf("requestspec: %w %q: %s", ErrInvalidFlavor, f.Name, fmt.Sprintf(format, args...))
}

// validate refuses sizes beyond Placement's limit.
func (f Flavor) validate() error {
	sizes := []struct {
		field string
		value int
	}{
		{"vcpus", f.VCPUs}, {"ram", f.MemoryMB}, {"disk", f.RootGB},
		{"ephemeral", f.EphemeralGB}, {"swap", f.SwapMB},
	}
	for _, s := range sizes {
		if s.value < 0 || int64(s.value) > maxAmount {
			return f.errorf("%s: %d is not between 0 and %d", s.field, s.value, maxAmount)
		}
	}
	if disk := f.diskGB(false); disk > maxAmount {
		return f.errorf("disk, ephemeral and swap: %d GiB together, more than %d", disk, maxAmount)
	}
	return nil
}

// diskGB returns the DISK_GB that Nova requests: the root disk unless booting from
// a volume, and swap in whole GiB.
func (f Flavor) diskGB(fromVolume bool) int64 {
	disk := int64(f.EphemeralGB) + (int64(f.SwapMB)+1023)/1024
	if !fromVolume {
		disk += int64(f.RootGB)
	}
	return disk
}
