package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// ErrRecords is matched by the error about records that are no state of the component that
// they are given to.
var ErrRecords = errors.New("bad records")

// Record is one row of a service's state.
type Record struct {
	// Table is the row's table, SERVICE.NAME.
	Table string `json:"table"`
	// Key is unique in the table. Keys are ordered bytewise.
	Key string `json:"key"`
	// Row is a JSON object.
	Row json.RawMessage `json:"row"`
}

// Errorf returns an error about a record that matches [ErrRecords] and names table and key.
func (r Record) Errorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s %s: %w", ErrRecords, r.Table, r.Key, fmt.Errorf(format, args...))
}

// Decode decodes the row, which must be one JSON object without unknown or repeated
// members. The error is one of [Record.Errorf].
func (r Record) Decode(row any) error {
	if err := decodeObject(r.Row, row); err != nil {
		return r.Errorf("%w", err)
	}
	return nil
}

func decodeObject(data []byte, into any) error {
	if err := strictjson.Decode(data, into); err != nil {
		return err
	}
	if bytes.TrimLeft(data, " \t\r\n")[0] != '{' {
		return errors.New("it is not a JSON object")
	}
	return strictjson.NoRepeatedMembers(data)
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
	// Prepare checks records that are to be the whole state, and returns the function that makes
	// them so, in place of all that was committed before it is called. It is called at most once,
	// in a [Pauser] while it is paused. The records may lose their rows, which need much memory. The
	// error matches [ErrRecords] and names the table and the key.
	Prepare(records []Record) (commit func(), err error)
	// OnCommit adds a function that is called with the changes of each transaction, those of
	// Prepare included. It is called in commit order, under the component's lock: it must not block
	// and must not call the component. It may keep the changes.
	OnCommit(func(changes []RecordChange))
}

// Pauser is implemented by components that work by themselves.
type Pauser interface {
	// Pause waits for what the component is doing, and lets it begin nothing until proceed is
	// called. The error is the context's, and nothing is paused then.
	Pause(ctx context.Context) (proceed func(), err error)
}

// Replace replaces the whole state of a component with records and pauses the component during
// the change. If Prepare or Pause returns an error, the state is unchanged.
func Replace(ctx context.Context, state Recorded, records []Record) error {
	commit, err := state.Prepare(slices.Clone(records))
	if err != nil {
		return err
	}
	if active, ok := state.(Pauser); ok {
		proceed, err := active.Pause(ctx)
		if err != nil {
			return err
		}
		defer proceed()
	}
	commit()
	return nil
}

// Difference is a row that only one of two states has, or a value in which a row differs.
type Difference struct {
	// Path is TABLE[KEY], or TABLE[KEY].FIELD and further into the row. The key is followed
	// by the name or UUID of the row, if it has one.
	Path string `json:"path"`
	// Before and After are JSON values, empty if the row does not exist.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String is one line: "+ path: value", "- path: value" or "  path: before -> after".
func (d Difference) String() string {
	switch {
	case d.Before == "":
		return "+ " + d.Path + ": " + d.After
	case d.After == "":
		return "- " + d.Path + ": " + d.Before
	}
	return "  " + d.Path + ": " + d.Before + " -> " + d.After
}

// IsTime reports whether the value is a time in both states.
func (d Difference) IsTime() bool {
	for _, text := range []string{d.Before, d.After} {
		if _, err := time.Parse(`"`+time.RFC3339Nano+`"`, text); err != nil {
			return false
		}
	}
	return true
}

// IsToken reports whether the difference is in a table of tokens.
func (d Difference) IsToken() bool {
	table, _, _ := strings.Cut(d.Path, "[")
	return strings.HasSuffix(table, ".tokens")
}
