package tables

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/gocyborg/gocyborg/sim"
)

// KindMore is the kind of the change that represents all changes that are not listed.
const KindMore = "more"

// Limits of a ChangeLog.
const (
	maxChanges    = 1000
	maxChangeText = 500 // bytes
)

// ChangeLog gathers what one request changes, in the order in which it first touches each
// thing. Successive changes of one thing are one; a thing that is made and removed again
// was not changed. A ChangeLog is safe for parallel use, and a nil one discards everything.
type ChangeLog struct {
	mu     sync.Mutex
	things []thing
	place  map[[2]string]int // in things; nil for few
	more   int               // things that did not fit
	ended  bool
	list   []sim.Change // what Changes returned
}

// thing is something that was touched: a row, or what a service notes itself.
type thing struct {
	key [2]string // table and key, or kind and ID
	sim.Change
	isRow         bool
	before, after any
	hidden        []string
}

// Record adds changes of rows that have a Kind.
func (l *ChangeLog) Record(changes []sim.RecordChange) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.things == nil && !l.ended {
		l.things = make([]thing, 0, min(len(changes), maxChanges))
	}
	for _, c := range changes {
		if c.Kind == "" {
			continue
		}
		t := thing{[2]string{c.Table, c.Key}, sim.Change{Kind: c.Kind, ID: cut(c.ID), What: cut(c.Label)}, true, c.Before, c.After, c.Hidden}
		if old := l.touch(t); old != nil && old.isRow {
			t.before = old.before
			*old = t
		}
	}
}

// Add adds changes of what is not a row.
func (l *ChangeLog) Add(changes ...sim.Change) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		c.ID, c.What = cut(c.ID), cut(c.What)
		if old := l.touch(thing{key: [2]string{c.Kind, c.ID}, Change: c}); old != nil {
			old.follow(c)
		}
	}
}

// fewThings is up to how many things are looked through for one of them.
const fewThings = 8

// touch adds a thing, or returns it if it is there.
func (l *ChangeLog) touch(t thing) *thing {
	if l.ended {
		return nil
	}
	if i := l.find(t.key); i >= 0 {
		return &l.things[i]
	}
	if len(l.things) >= maxChanges {
		l.more++
		return nil
	}
	l.things = append(l.things, t)
	if l.place != nil {
		l.place[t.key] = len(l.things) - 1
	}
	return nil
}

// find returns where a thing is; negative if it is not there.
func (l *ChangeLog) find(key [2]string) int {
	if len(l.things) <= fewThings {
		for i := range l.things {
			if l.things[i].key == key {
				return i
			}
		}
		return -1
	}
	if l.place == nil {
		l.place = make(map[[2]string]int)
		for i, t := range l.things {
			l.place[t.key] = i
		}
	}
	if i, found := l.place[key]; found {
		return i
	}
	return -1
}

// follow makes one change of two.
func (t *thing) follow(next sim.Change) {
	switch {
	case t.isRow:
		*t = thing{key: t.key, Change: next}
	case t.Action == sim.Created && next.Action == sim.Deleted:
		t.Action = ""
	case t.Action == sim.Created || t.Action == sim.Deleted && next.Action != sim.Created:
	case t.Action == sim.Deleted:
		next.Action = sim.Changed
		t.Change = next
	default:
		t.Change = next
	}
}

// largeLog is the memory of a log, in bytes, from which its changes are described at once: the rows are
// of any length, their descriptions are short.
const largeLog = 64 << 10

// End makes the log discard later changes, and returns how many things were touched and about how much
// memory the log takes, in bytes.
func (l *ChangeLog) End() (touched int, size int64) {
	if l == nil {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.place = true, nil
	touched = len(l.things)
	for i := range l.things {
		t := &l.things[i]
		size += int64(unsafe.Sizeof(*t)) + int64(len(t.ID)+len(t.What)) + sizeOf(t.before) + sizeOf(t.after)
	}
	if size > largeLog {
		size = 0
		for _, c := range l.describe() {
			size += int64(unsafe.Sizeof(c)) + int64(len(c.ID)+len(c.What))
		}
	}
	return touched, size
}

// Changes ends the log and returns the changes. They are described here, which costs more
// than all else that a log does: most are never read.
func (l *ChangeLog) Changes() []sim.Change {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.describe()
}

// describe replaces the things by their changes.
func (l *ChangeLog) describe() []sim.Change {
	for _, t := range l.things {
		if t.isRow {
			t.describe()
		}
		if t.Action != "" {
			l.list = append(l.list, t.Change)
		}
	}
	if l.more > 0 {
		l.list = append(l.list, MoreChanges(l.more))
	}
	l.things, l.place, l.more = nil, nil, 0
	return l.list
}

// MoreChanges is the change that represents n others.
func MoreChanges(n int) sim.Change {
	return sim.Change{Action: sim.Changed, Kind: KindMore, What: fmt.Sprintf("%d more changes, which are not kept", n)}
}

// describe fills in the action, and appends to the label which fields are different.
func (t *thing) describe() {
	switch {
	case t.before == nil && t.after == nil:
	case t.before == nil:
		t.Action = sim.Created
	case t.after == nil:
		t.Action = sim.Deleted
	default:
		if fields := changedFields(t.before, t.after, t.hidden); fields != "" {
			t.Action = sim.Changed
			t.What = cut(strings.TrimPrefix(t.What+": "+fields, ": "))
		}
	}
}

// changedFields lists the JSON fields in which two rows differ: "state Initial -> Bound".
func changedFields(before, after any, hidden []string) string {
	from, to := fieldsOf(before), fieldsOf(after)
	var texts []string
	for _, f := range to {
		if !slices.ContainsFunc(from, func(g field) bool { return g.name == f.name }) {
			from = append(from, field{f.name, ""})
		}
	}
	for _, f := range from {
		after := ""
		if i := slices.IndexFunc(to, func(g field) bool { return g.name == f.name }); i >= 0 {
			after = to[i].value
		}
		if f.value != after && !slices.Contains(hidden, f.name) {
			texts = append(texts, f.name+" "+orNone(f.value)+" -> "+orNone(after))
		}
	}
	return strings.Join(texts, ", ")
}

func orNone(value string) string { return cmp.Or(value, "none") }

// field is a field of a row; null, "", [] and {} are empty values.
type field struct{ name, value string }

// fieldsOf returns the fields of a row in the order of its JSON form.
func fieldsOf(row any) (fields []field) {
	data, err := json.Marshal(row)
	if err != nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return fields
		}
		fields = append(fields, field{fmt.Sprint(name), valueText(value)})
	}
	return fields
}

func valueText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil { // null is empty, too
		return text
	}
	if s := string(value); s != "[]" && s != "{}" {
		return s
	}
	return ""
}

// cut shortens a text that is too long to be kept. The copy does not keep the memory of a
// larger text that it is part of.
func cut(text string) string {
	if len(text) <= maxChangeText {
		return text
	}
	end := maxChangeText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + "…"
}
