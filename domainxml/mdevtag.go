package domainxml

// Values of [MdevTag].
const (
	TagAccelerator = "ACCELERATOR" // Cyborg owns the guest's mediated devices
	TagCompute     = "COMPUTE"     // Nova owns them, or there are none
)

// MdevTag returns the mdev_tag of the Wallaby vGPU specification, the owner of a
// guest's mediated devices: [TagAccelerator] if a handle has type MDEV, a UUID and a
// non-empty asked_type, else [TagCompute]. With TagAccelerator, do not copy the
// mediated devices of the old domain in a hard reboot: the accelerator requests add
// them, and libvirt refuses duplicates.
func MdevTag(handles []Handle) string {
	for _, h := range handles {
		asked, _ := h.Info["asked_type"].(string)
		if h.Type == HandleMDEV && h.UUID != "" && asked != "" {
			return TagAccelerator
		}
	}
	return TagCompute
}
