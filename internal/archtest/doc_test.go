// Package archtest holds the module to its plan: who may import whom, no
// package-level mutable state, every exported name documented, no internal type
// in a public signature, no public type declared twice and no noun twice in one half, no overlong function,
// one lock for the rows of a service, no stored context, no concrete error type as
// a result.
//
// It also counts what may fall and not grow ([Counts]) and compares the counts with the
// bounds of testdata/ratchet.txt ([Bounds]).
//
// A third check holds the flow of a spawn to one way to change something outside ([Writes]): requests are recorded in a
// ledger before they are sent. It follows calls and function values through the types of the source.
//
// The plan is in plan_test.go, the exceptions from its rules are in exceptions_plan_test.go, both for writes in
// writes_plan_test.go.
// The package has test files only: nothing imports it.
//
// All but that check read source text only. They deliberately do not
// compile or list packages, so a build tag hides nothing from them and they need no tool beside
// the standard library. The check of writes lists packages with the go command, for the system that runs it. Test files are outside the plan. What source text cannot show, such
// as a table that is changed through a function it was passed to, is not found.
package archtest
