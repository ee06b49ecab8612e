package archtest

// writes says how the flow of a spawn may change something outside.
func writes() Writes {
	return Writes{
		Senders: []string{"cyborgclient", "cyborgclient/spawn/internal/placement"},
		Writers: []string{"cyborgclient/spawn/..."},
		Hooks:   []string{"cyborgclient/spawn"},
		Reads:   []string{"Hypervisor.Domain", "Hooks.Claim", "Hooks.Prepare", "ReconcileOpts.Living"},
		Ledger:  "cyborgclient/spawn/internal/ledger", Recorders: []string{"Do", "Claim", "Remove", "Release"},
		Transition: "ledger.Effect.to", Outcome: "ledger.outcome",
		Once:       []string{"accelerator.arq.delete", "placement.Client.SetAllocation"},
		Exceptions: unrecorded(),
	}
}

// unrecorded are the requests that may be sent without a record, and other findings that may stand. A line that is no longer needed
// is a finding.
func unrecorded() []Exception {
	const (
		probe   = "a probe names what does not exist: nothing changes"
		program = "what a program with an unknown outcome has written is read afterwards: no journal can undo it"
		profile = "a device profile is created for all spawns of a Rocky flavor and remains"
	)
	return []Exception{
		{"recorded", "spawn.Flow.Check: cyborgclient.Client.CreateARQs", probe},
		{"recorded", "spawn.Flow.Check: cyborgclient.Client.UnbindARQs", probe},
		{"recorded", "spawn.Flow.Check: cyborgclient.Client.DeleteARQs", probe},
		{"recorded", "spawn.Flow.Check: cyborgclient.Client.ProgramDeployable", probe},
		{"recorded", "spawn.Flow.ensureProfile: cyborgclient.Client.CreateDeviceProfile", profile},

		{"once", "spawn.Flow.Check: cyborgclient.Client.DeleteARQs", probe},

		{"state", "ledger.Effect.UnmarshalJSON", "it reads a state that was set before it was stored"},
		{"state", "ledger.Effect.interrupt", "a request of a process that has ended has no answer; the change keeps that process's time"},

		{"outcome", "spawn.Attempt.CreateARQs", "a create with a lost reply is not repeated in the same attempt"},
		{"outcome", "spawn.Attempt.Reschedulable", "it decides about the next host, not about an effect"},
		{"outcome", "spawn.refusals.cause", "it decides which error a caller gets, not about an effect"},
		{"outcome", "spawn.Flow.ensureProfile", profile},
		{"outcome", "spawn.replyLost", program},
	}
}
