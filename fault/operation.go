package fault

// Operation is something that a rule can make fail.
type Operation struct {
	// Name is stable: "placement.allocations.put".
	Name string `json:"operation"`
	// Subject describes the subject of a rule.
	Subject string `json:"subject"`
	// Actions are the possible actions of rules.
	Actions []Action `json:"actions"`
}
