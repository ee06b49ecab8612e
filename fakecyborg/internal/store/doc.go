// Package store is the database of the simulated Cyborg: its tables, and the transitions
// between their states.
//
// A transition is a method of [Tx]. It takes ids, values and the time, does no I/O, and returns
// values; a row in a table is never modified. A [Refusal] is an error in Cyborg's words, which does
// not undo the transaction: a bind that fails is stored as BindFailed.
//
// What takes time or leaves the process happens between two transactions. The first takes a [Lease],
// the second ends it, or finds that the row was released or deleted meanwhile.
//
// It follows, of the 2026.2 release, cyborg/db/sqlalchemy/models.py, cyborg/objects/ext_arq.py,
// cyborg/objects/extarq and cyborg/conductor/manager.py.
package store
