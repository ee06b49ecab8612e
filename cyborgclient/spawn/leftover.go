package spawn

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// LeftoverKind says what a [Leftover] is.
type LeftoverKind string

// The kinds of leftovers; the ID of a leftover is given in parentheses.
const (
	LeftoverARQ        LeftoverKind = "arq"              // an ARQ (its UUID)
	LeftoverARQs       LeftoverKind = "arqs of instance" // all ARQs, which could not be listed (the instance)
	LeftoverAllocation LeftoverKind = "allocation"       // an allocation in Placement (the instance)
	LeftoverGuest      LeftoverKind = "guest"            // a guest of the hypervisor (the instance)
	LeftoverMdev       LeftoverKind = "mdev"             // a mediated device of Nova's (its UUID)
	LeftoverCreate     LeftoverKind = "arq create"       // ARQs of a create whose reply was lost (the device profile's name)
	LeftoverRegion     LeftoverKind = "region"           // a region of an FPGA whose content is not known (the deployable)
)

// Leftover is something that may still hold an accelerator.
type Leftover struct {
	Kind LeftoverKind `json:"kind"`
	ID   string       `json:"id"`
	// Instance is the one that it was made for; empty where it is not known.
	Instance string `json:"instance,omitempty"`
	// Certain is true if it was read after the last request that could have changed it, and existed. If not, no
	// such answer was read, or it did not exist: it may be another client's (an ARQ), or may still
	// appear (an allocation, a create), see [Flow.Suspects]. A guest that the hypervisor could not remove and a
	// mediated device are never certain, because no read shows them.
	Certain bool `json:"certain"`
	// Seq, Count, ProjectID and Since describe a [LeftoverCreate]: it may have made up to
	// Count ARQs in the project, with a creation time from Since on. Seq is its number among
	// the creates of the Flow, from 1: several may have begun within one second.
	Seq       int       `json:"seq,omitempty"`
	Count     int       `json:"count,omitempty"`
	ProjectID string    `json:"project_id,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	// Reason is set by [Flow.Reconcile]: why this belongs to no living instance.
	Reason string `json:"reason,omitempty"`
	// Err is why it could not be given back; nil if it was, or was not to be.
	Err error `json:"-"`
}

// String names the leftover and its error.
func (l Leftover) String() string {
	if details := l.details(); details != "" {
		return l.name("") + " (" + details + ")"
	}
	return l.name("")
}

// name leaves out an instance that the text around it names.
func (l Leftover) name(instance string) string {
	switch {
	case l.Kind == LeftoverCreate:
		return fmt.Sprintf("up to %s of device profile %s", count(l.Count, "ARQ"), l.ID)
	case l.ID == instance:
		return strings.TrimSuffix(string(l.Kind), " of instance")
	}
	return fmt.Sprintf("%s %s", l.Kind, l.ID)
}

func (l Leftover) details() string {
	var details []string
	if l.Kind == LeftoverCreate {
		details = []string{fmt.Sprintf("project %s, created after %s", l.ProjectID, l.Since.UTC().Format(time.RFC3339))}
	} else if !l.Certain {
		details = []string{"not certain"}
	}
	if l.Err != nil {
		details = append(details, withoutSubject(l.Err.Error(), l.ID))
	}
	return strings.Join(details, "; ")
}

// leftoversText names leftovers, and what neighbors have in common once.
func leftoversText(leftovers []Leftover, instance string) string {
	list := make([]detailed, len(leftovers))
	for i, l := range leftovers {
		list[i] = detailed{l.name(instance), withoutSubject(l.details(), instance)}
	}
	return detailedText(list)
}

// same reports whether both are about the same thing.
func (l Leftover) same(other Leftover) bool {
	return l.Kind == other.Kind && l.ID == other.ID && l.Instance == other.Instance && l.Seq == other.Seq
}

// leftoverKinds are the kinds of what remains of effects, in the order in which they are named. A binding remains with its ARQs, the
// definition of a mediated device with its ARQ.
var leftoverKinds = []struct {
	effect ledger.Kind
	kind   LeftoverKind
}{
	{ledger.Guest, LeftoverGuest}, {ledger.ARQ, LeftoverARQ}, {ledger.Listed, LeftoverARQs}, {ledger.Claim, LeftoverAllocation},
	{ledger.Part, LeftoverAllocation}, {ledger.Consumer, LeftoverAllocation}, {ledger.NovaMdev, LeftoverMdev}, {ledger.Program, LeftoverRegion}, {ledger.Create, LeftoverCreate},
}

// leftoverKindOf returns the kind of what remains of an effect.
func leftoverKindOf(kind ledger.Kind) LeftoverKind {
	for _, k := range leftoverKinds {
		if k.effect == kind {
			return k.kind
		}
	}
	return LeftoverMdev
}

// leftoverOf describes an effect that remains.
func leftoverOf(e ledger.Effect) Leftover {
	l := Leftover{Kind: leftoverKindOf(e.Kind), ID: e.ID, Instance: e.Instance, Certain: e.State == ledger.Left, Err: e.Err}
	if e.Origin != nil {
		l.Seq, l.Count, l.ProjectID, l.Since = e.Seq, e.Origin.Missing, e.Origin.Project, e.Origin.Since
		if l.Since.IsZero() {
			l.Since = e.Origin.Began.Add(-clockSkew)
		}
	}
	if l.Err == nil {
		l.Err = errReplyLost
	}
	return l
}

// leftoversOf returns what remains of the effects of a journal, and the suspects.
func leftoversOf(j *ledger.Journal) []Leftover {
	left, suspects := remaining(j)
	return append(left, suspects...)
}

// remaining returns what could not be removed of the effects of a journal, and what is not known: guests, ARQs, allocations.
func remaining(j *ledger.Journal) (left, suspects []Leftover) {
	for _, k := range leftoverKinds {
		for _, e := range j.Effects(k.effect) {
			switch {
			case e.Kind == ledger.Listed && len(j.Effects(ledger.ARQ)) > 0: // they are named
			case isSuspect(*e):
				suspects = append(suspects, leftoverOf(*e))
			case e.State == ledger.Left, e.State == ledger.Unknown, e.State == ledger.Undoing:
				left = append(left, leftoverOf(*e))
			}
		}
	}
	return left, suspects
}

// isSuspect reports whether an effect is another client's, perhaps, or may still appear.
func isSuspect(e ledger.Effect) bool {
	return e.State == ledger.Foreign || e.State == ledger.Unknown && (e.Kind == ledger.Create || e.Kind == ledger.Claim && e.Amount.Added == nil)
}

// namesOf returns what was removed as the texts of [Error.Undone].
func namesOf(removed []*ledger.Effect) []string {
	var names []string
	for _, e := range removed {
		switch {
		case e.Kind == ledger.Mdev:
		case e.Saved != nil:
			names = append(names, "change of guest "+e.ID)
		case e.Kind == ledger.Part:
			names = append(names, "part of allocation "+e.ID)
		case e.Kind == ledger.Binding:
			names = append(names, "bindings of instance "+e.ID)
		default:
			l := leftoverOf(*e)
			names = append(names, string(l.Kind)+" "+l.ID)
		}
	}
	return names
}

// Suspects lists, the oldest first, what requests of the last hour with an unknown outcome may have
// made, in [Error.Leftovers] or [Result.Suspects] of an attempt, and what no one has seen since.
// [Flow.Reconcile] finds it once it exists.
func (f *Flow) Suspects() []Leftover {
	var suspects []Leftover
	for _, e := range f.book.Uncertain() {
		if isSuspect(e) && !slices.ContainsFunc(suspects, leftoverOf(e).same) {
			suspects = append(suspects, leftoverOf(e))
		}
	}
	return suspects
}
