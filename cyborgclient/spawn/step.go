package spawn

import "fmt"

// Step is one of the ten steps of the flow, the unwinding, or a hook of the
// caller.
type Step int

// The steps in order.
const (
	StepProfile    Step = iota + 1 // read the device profile that the flavor names
	StepRequest                    // flavor and profile become request groups
	StepCandidates                 // ask Placement for allocation candidates
	StepSelect                     // choose a host
	StepClaim                      // claim the allocation
	StepCreate                     // create the ARQs
	StepMatch                      // match each ARQ with the provider of its group
	StepBind                       // bind all ARQs
	StepWait                       // wait until every ARQ is Bound
	StepCompose                    // put the devices into the domain XML
	StepUnwind                     // give everything back
	StepHost                       // the compute host's own claim, see Hooks
	StepPrepare                    // networks and block devices, see Hooks
	StepStart                      // define and start the guest, see Hooks
)

// String returns the step's short name: "profile", "claim", ...
func (s Step) String() string {
	names := [...]string{"profile", "request", "candidates", "select", "claim", "create", "match", "bind", "wait", "compose", "unwind",
		"host", "prepare", "start"}
	if s < StepProfile || int(s) > len(names) {
		return fmt.Sprintf("step %d", int(s))
	}
	return names[s-1]
}

// MarshalText writes the short name.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
