// Package store is the database of the simulated Cyborg: its tables, and the transitions between their states.
//
// A transition is a method of [Tx]. It takes IDs, values and the time, performs no I/O, and returns values; rows in
// tables are never modified. A [Refusal] is an error with Cyborg's text. It does not undo the transaction: a bind
// that fails is stored as BindFailed.
//
// Work that takes time or calls another process is done between two transactions. The first takes a [Lease]. The
// second ends it, or finds that the row was released or deleted in between.
//
// It follows, of the 2026.2 release, cyborg/db/sqlalchemy/models.py, cyborg/objects/ext_arq.py,
// cyborg/objects/extarq and cyborg/conductor/manager.py.
package store
