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
// [Set.Decide] and act in their own error dialect. There is no probability:
// a failing run must be repeatable.
//
//	faults.Set(fault.Rule{
//		Operation: "accelerator.arq.bind",
//		When:      fault.After,
//		Action:    fault.Drop, // bound, but the caller never hears of it
//	})
package fault
