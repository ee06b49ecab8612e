package sim

import (
	"encoding/json"
	"iter"
)

// Record is one row of a service's state.
type Record struct {
	// Table is the row's table, SERVICE.NAME.
	Table string `json:"table"`
	// Key is unique in the table. The order of keys is that of their bytes.
	Key string `json:"key"`
	// Row is a JSON object.
	Row json.RawMessage `json:"row"`
}

// RecordChange is one row before and after a transaction. The rows are immutable, so they
// may be kept; json.Marshal gives the Row of a [Record].
type RecordChange struct {
	Table, Key string
	// Before and After are nil where the row is absent.
	Before, After any
	// Kind and ID name the row for people: "accelerator_request" and its UUID. Label
	// describes it in a few words. Changes without a Kind are internal to the service.
	Kind, ID, Label string
	// Hidden are the JSON fields that a description of the change leaves out.
	Hidden []string
}

// Recorded is a component whose state is a set of records.
type Recorded interface {
	// Records iterates over every row of one snapshot, ordered by table, then key. The
	// iteration ends with the first error.
	Records() iter.Seq2[Record, error]
	// Replace makes the records the whole state. On an error, which names the table and the
	// key, the state is as before.
	Replace(records []Record) error
	// OnCommit adds a function that is called with the changes of each transaction, Replace
	// included. It is called in commit order, under the component's lock: it must not block
	// and must not call the component. It may keep the changes.
	OnCommit(func(changes []RecordChange))
}
