// Package fault describes how a simulator is to fail on purpose: which
// operation, which occurrence, before or after the change is applied, and how
// the caller is to notice.
//
// A [Rule] is plain data, so that it can be written in Go, in a file or sent
// over HTTP; a [Set] holds the rules of one simulated cloud and decides. A
// decision depends on the rule, the operation, the subject and how often that
// subject was seen, never on the order in which different subjects arrive, so
// a parallel run fails in the same places every time.
//
// The package deliberately injects nothing by itself: the simulators ask
// [Set.Decide] and act in their own error dialect. A rule with a Probability asks
// no source of chance either: seed, rule, subject and count decide, so that a
// failing run can be repeated.
//
// Beside requests there is what a service does by itself, such as passing an
// event on, making a mediated device or finding a card: [Set.Describe] lists all
// operations, each with the actions it takes. A rule that asks for another one
// is refused when it is set. [Set.Dump] and [Set.Load] keep rules and counts across a
// restart.
//
//	faults.Set(fault.Rule{
//		Operation: "accelerator.arq.bind",
//		When:      fault.After,
//		Action:    fault.Drop, // bound, but the caller never hears of it
//	})
package fault
