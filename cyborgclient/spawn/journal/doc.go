// Package journal keeps the journals of operations under way, so that a process that was killed knows, when it runs
// again, what it had begun. A journal is a list of records of one instance. The records are opaque bytes: this package
// knows nothing of what they say.
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
// There are two stores. [NewMemory] serves one process and forgets everything with it. [Open] keeps the journals in a
// file, which one process has open at a time. A store that several processes or machines share, for example in etcd or
// an SQL database, implements [Store] and [Journal] with leases: [Journal.Until] and [Journal.Renew] exist for it.
// Package journaltest has a conformance suite for any store, and a shared store for tests.
package journal
