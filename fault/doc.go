// Package fault describes the faults of a simulator: the operation that fails, the
// occurrence, whether the change is applied, and what the caller sees.
//
// A [Rule] is plain data: it can be written in Go, stored in a file or sent over HTTP. A [Set]
// has the rules of one simulated cloud. Whether a rule applies depends on the rule, the
// operation, the subject and how often that subject was seen, not on the order in which different
// subjects arrive, so a parallel run fails in the same places every time. With a Probability it
// also depends on the seed. A failing run can therefore be repeated.
//
// The simulators call [Set.Decide] and act on the rule in their own error format. Rules
// apply to requests and to background work of a service, such as forwarding an event,
// creating a mediated device or finding a card. Each operation has a constant, such as
// [ARQBind]; [Set.Describe] lists all of a set, each with its actions. A rule with another
// action is refused. A Set implements sim.Recorded, which keeps rules and counts across a
// restart.
//
//	faults.Set(fault.Rule{
//		Operation: fault.ARQBind,
//		When:      fault.After,
//		Action:    fault.Drop, // bound, but the caller gets no answer
//	})
package fault
