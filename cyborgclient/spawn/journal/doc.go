// Package journal stores the journals of operations in progress, so that a restarted process finds the operations
// that a crash interrupted. A journal is a list of records of one instance. The records are opaque bytes to this
// package.
//
// An operation locks the journal of its instance, appends a record before each effect, clears the journal at its end and
// releases it:
//
//	j, err := store.Lock(ctx, instance)
//	if err != nil {
//		return err
//	}
//	defer j.Release()
//	if err := j.Append(ctx, record); err != nil {
//		return err // nothing is begun that is not recorded
//	}
//
// There are two stores. [NewMemory] returns a store in memory for one process. [Open] keeps the journals in a file,
// which one process has open at a time. A store that several processes or machines share, for example in etcd or an
// SQL database, implements [Store] and [Journal] with leases: see [Journal.Until] and [Journal.Renew]. Package
// journaltest has a conformance suite for any store, and a shared store for tests.
package journal
