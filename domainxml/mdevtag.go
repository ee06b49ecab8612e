package domainxml

// Values of [MdevTag].
const (
	TagAccelerator = "ACCELERATOR" // Cyborg owns the guest's mediated devices
	TagCompute     = "COMPUTE"     // Nova owns them, or there are none
)

// MdevTag says who owns the mediated devices of a guest, as the Wallaby vGPU
// specification defines its mdev_tag: [TagAccelerator] if some handle has type
// MDEV, a handle UUID and a non-empty asked_type; otherwise, and without
// handles, [TagCompute]. An agent that collects the mediated devices of an old
// domain before a hard reboot leaves them out when the tag says they come from
// the accelerator requests anyway: libvirt refuses the same one twice.
func MdevTag(handles []Handle) string {
	for _, h := range handles {
		asked, _ := h.Info["asked_type"].(string)
		if h.Type == HandleMDEV && h.UUID != "" && asked != "" {
			return TagAccelerator
		}
	}
	return TagCompute
}
