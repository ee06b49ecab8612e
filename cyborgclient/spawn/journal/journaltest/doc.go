// Package journaltest tests stores of journals, and provides one for tests.
//
// [Run] is a conformance suite for any [journal.Store]. [NewShared] returns a store that several agents share in one
// process, with leases that run on the virtual clock inside a bubble of testing/synctest; agents can be killed and
// the store can fail.
package journaltest
