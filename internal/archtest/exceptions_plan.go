package archtest

// today is the reason of an exception that goes when its package is reworked.
const today = "stands until the package is reworked"

// exceptions are the findings that may stand. One that is no longer needed is a finding
// itself: remove its line.
func exceptions() []Exception {
	return []Exception{
		{"error", "placementsim/internal/engine.refuse", today},
		{"error", "placementsim/internal/engine.unknownTraits", today},
		{"size", "cyborgclient/spawn", today},
		{"size", "placementsim", today},
		{"size", "placementsim/internal/engine", today},
		{"twice", "simcloud.DeviceProfile", "the simulators share no code with the library"},
		{"twice", "simcloud.Flavor", "the simulators share no code with the library"},
	}
}
