package archtest

// exceptions are the findings that may stand. One that is no longer needed is a finding
// itself: remove its line.
func exceptions() []Exception {
	return []Exception{
		{"size", "cyborgclient/spawn", "flow and operations share the state of an attempt"},
		{"size", "placementsim/internal/engine", "search, claims and explanation share the dense state"},
		{"twice", "simcloud.DeviceProfile", "the simulators share no code with the library"},
		{"twice", "simcloud.Flavor", "the simulators share no code with the library"},
	}
}
