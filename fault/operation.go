package fault

// Operation is something that a rule can make fail.
type Operation struct {
	// Name is stable: "placement.allocations.put".
	Name string `json:"operation"`
	// Subject says in words what the subject of a rule is compared with.
	Subject string `json:"subject"`
	// Actions are those that rules may have.
	Actions []Action `json:"actions"`
}

// RequestActions are what can happen to a request and its answer.
func RequestActions() []Action {
	return []Action{Status, Drop, Truncate, Malformed, Delay, SlowBody}
}
