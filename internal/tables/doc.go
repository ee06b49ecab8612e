// Package tables keeps the rows of a service in typed tables with indexes, changes them in
// transactions, and says which rows each transaction changed.
//
//	db := tables.New("accelerator")
//	arqs := tables.Add(db, tables.Spec[int64, ARQ]{
//		Name: "accelerator_requests", Kind: "accelerator_request",
//		Key: func(r ARQ) int64 { return r.ID }, ID: func(r ARQ) string { return r.UUID },
//	})
//	byUUID := arqs.Unique(func(r ARQ) string { return r.UUID })
//	byInstance := arqs.Index(func(r ARQ) string { return r.Instance })
//	ids := tables.KeySequence(arqs)
//
//	db.Update(log, func(tx *tables.Tx) {
//		arqs.Put(tx, ARQ{ID: ids.Next(tx), UUID: uuid})
//	})
//
// A row is a plain struct with JSON tags. It is immutable once it is in a table: a row is
// changed by putting another one with the same key, and its slices and maps are never
// written to. Rows refer to each other by UUID or id. The tables, indexes, sequences and
// checks of a [DB] are declared before its first transaction.
//
// A [DB] is a [sim.Recorded].
package tables
