package simhttp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/sim"
)

// KindMore is the kind of the one change that stands for all that are not told any more.
const KindMore = "more"

// Limits of what is kept.
const (
	maxNotes     = 1000   // changes of one exchange
	maxNoteText  = 500    // bytes of one text in a change
	maxKeptNotes = 100000 // changes of all exchanges of a recorder
)

// Step is a value of a thing that has changed.
type Step struct{ Name, From, To string }

// Notes gathers what one exchange changes, in the order in which it touches things. What
// it does to one thing is told as one change, the difference between before and after: a
// thing that is made and unmade again was not changed. Notes are safe for parallel use,
// and a nil one takes nothing.
type Notes struct {
	mu    sync.Mutex
	list  []note
	place map[[2]string]int // in list, by kind and id
	more  int               // that did not fit
	ended bool
}

// note is a change in the making.
type note struct {
	sim.Change        // without an action: none, after all
	steps      []Step // told after What
}

type notesKey struct{}

// NotesOf returns the notes of the exchange that is being served under ctx, or nil if
// nobody wants to know.
func NotesOf(ctx context.Context) *Notes {
	n, _ := ctx.Value(notesKey{}).(*Notes)
	return n
}

// Note adds to what the exchange that is being served under ctx has changed. After its
// end, and outside of one, it does nothing.
func Note(ctx context.Context, changes ...sim.Change) { NotesOf(ctx).Add(changes...) }

// WithNotesOf is ctx with the notes of another context: for work that a request waits
// for although it is not bound to the request's life.
func WithNotesOf(ctx, other context.Context) context.Context {
	if n := NotesOf(other); n != nil {
		return context.WithValue(ctx, notesKey{}, n)
	}
	return ctx
}

// WithoutNotes is ctx for work that belongs to no exchange, or to one of another service.
func WithoutNotes(ctx context.Context) context.Context {
	if NotesOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, notesKey{}, (*Notes)(nil))
}

// Add notes changes, unless the exchange is over.
func (n *Notes) Add(changes ...sim.Change) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range changes {
		n.add(note{Change: c})
	}
}

// AddSteps notes that values of a thing have changed; what says which thing it is. Steps
// that lead nowhere are left out, and a thing without any is not changed.
func (n *Notes) AddSteps(kind, id, what string, steps ...Step) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	steps = slices.DeleteFunc(steps, func(s Step) bool { return s.From == s.To })
	if len(steps) > 0 {
		n.add(note{sim.Change{Action: sim.Changed, Kind: kind, ID: id, What: what}, steps})
	}
}

// add notes one change, as part of what was noted of the same thing.
func (n *Notes) add(c note) {
	c.ID, c.What = cut(c.ID), cut(c.What)
	i, known := n.place[[2]string{c.Kind, c.ID}]
	switch {
	case n.ended:
	case known:
		n.list[i].follow(c)
	case len(n.list) >= maxNotes:
		n.more++
	default:
		if n.place == nil {
			n.place = make(map[[2]string]int)
		}
		n.place[[2]string{c.Kind, c.ID}] = len(n.list)
		n.list = append(n.list, c)
	}
}

// follow makes of two changes of a thing, one after the other, a single one.
func (c *note) follow(next note) {
	switch {
	case c.Action == "":
		*c = next
	case c.Action == sim.Created && next.Action == sim.Deleted:
		c.Action = ""
	case c.Action == sim.Created || c.Action == sim.Deleted && next.Action != sim.Created:
	case c.Action == sim.Deleted:
		next.Action = sim.Changed // there is another one in its place
		*c = next
	case next.Action == sim.Deleted || c.steps == nil || next.steps == nil:
		*c = next
	default:
		c.walk(next.steps)
	}
}

// walk takes further steps from where the last ones have led.
func (c *note) walk(steps []Step) {
	for _, s := range steps {
		i := slices.IndexFunc(c.steps, func(before Step) bool { return before.Name == s.Name })
		if i < 0 {
			c.steps = append(c.steps, s)
			continue
		}
		c.steps[i].To = s.To
	}
}

// told is the change in words; not ok if there is none.
func (c *note) told() (told sim.Change, ok bool) {
	told = c.Change
	var texts []string
	for _, s := range c.steps {
		if s.From != s.To {
			texts = append(texts, s.Name+" "+orNone(s.From)+" -> "+orNone(s.To))
		}
	}
	if c.Action == "" || c.steps != nil && texts == nil {
		return told, false
	}
	if texts != nil {
		told.What = cut(strings.TrimPrefix(told.What+": ", ": ") + strings.Join(texts, ", "))
	}
	return told, true
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

// end returns what was noted and takes nothing any more.
func (n *Notes) end() []sim.Change {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	var list []sim.Change
	for i := range n.list {
		if told, ok := n.list[i].told(); ok {
			list = append(list, told)
		}
	}
	if n.more > 0 {
		list = append(list, moreChanges(n.more))
	}
	return list
}

func moreChanges(n int) sim.Change {
	return sim.Change{Action: sim.Changed, Kind: KindMore, What: fmt.Sprintf("%d more changes, which are not kept", n)}
}

// cut shortens a text that is too long to be kept. The copy lets go of a larger text, such
// as a body, that it is a part of.
func cut(text string) string {
	if len(text) <= maxNoteText {
		return text
	}
	end := maxNoteText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + "…"
}

// noting prepares the context of an exchange for notes. Where nobody would see them there
// are none, and those of an exchange that this one serves are out of reach.
func (s *Service) noting(ctx context.Context) (context.Context, *Notes) {
	if s.Recorder == nil && s.Observe == nil && recorderOf(ctx) == nil {
		return WithoutNotes(ctx), nil
	}
	n := new(Notes)
	return context.WithValue(ctx, notesKey{}, n), n
}

// shed lets the oldest exchanges forget their changes when there are too many in all. It
// is called under the lock.
func (r *Recorder) shed(added int) {
	if r.changes += added; r.changes <= maxKeptNotes {
		return
	}
	r.changes = 0
	for i := range r.exchanges {
		r.changes += len(r.exchanges[i].Changes)
	}
	for i := 0; i < len(r.exchanges) && r.changes > maxKeptNotes/2; i++ {
		e := &r.exchanges[i].Exchange
		if n := len(e.Changes); n > 1 {
			e.Changes = []sim.Change{moreChanges(n)}
			r.changes -= n - 1
		}
	}
}
