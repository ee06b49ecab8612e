package archtest

// exceptions are the findings that may stand. One that is no longer needed is a finding
// itself: remove its line.
func exceptions() []Exception {
	return []Exception{
		{"mutex", "fakecyborg/internal/agent.Conductor", "it guards the hosts and their turns, which are not rows"},
		{"mutex", "internal/nova.Server", "it guards the receivers of events"},
		{"mutex", "internal/nova.deliveries", "it guards goroutines"},
		{"twice", "simcloud.Flavor", "the simulators share no code with the library"},
	}
}
