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

// The kinds of leftovers, with their IDs in parentheses.
const (
	LeftoverARQ        LeftoverKind = "arq"              // an ARQ (its UUID)
	LeftoverARQs       LeftoverKind = "arqs of instance" // all ARQs of an instance, which could not be listed (the instance)
	LeftoverAllocation LeftoverKind = "allocation"       // an allocation in Placement (the instance)
	LeftoverGuest      LeftoverKind = "guest"            // a guest of the hypervisor (the instance)
	LeftoverMdev       LeftoverKind = "mdev"             // a mediated device of Nova (its UUID)
	LeftoverCreate     LeftoverKind = "arq create"       // ARQs of a create whose response was lost (the device profile's name)
	LeftoverRegion     LeftoverKind = "region"           // an FPGA region with unknown content (the deployable)
)

// Leftover is a resource that was not cleaned up and may still hold an accelerator.
type Leftover struct {
	Kind LeftoverKind `json:"kind"`
	ID   string       `json:"id"`
	// Instance is the UUID of its instance; empty if unknown.
	Instance string `json:"instance,omitempty"`
	// Certain reports whether the resource existed when it was read after the last request that could have changed
	// it. If false, it was not read or did not exist: it may belong to another client (an ARQ), or may still appear
	// (an allocation, a create), see [Flow.Suspects]. A guest that the hypervisor could not remove and a mediated
	// device are never certain, because they cannot be read.
	Certain bool `json:"certain"`
	// Seq, Count, ProjectID and Since describe a [LeftoverCreate]: up to Count ARQs may exist in the project, with
	// creation times from Since on. Seq is the number of the create within the Flow, from 1; several creates may have
	// begun in the same second.
	Seq       int       `json:"seq,omitempty"`
	Count     int       `json:"count,omitempty"`
	ProjectID string    `json:"project_id,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	// Reason is set by [Flow.Reconcile]: why the resource belongs to no living instance.
	Reason string `json:"reason,omitempty"`
	// Err is why it could not be released; nil if it was released or was not to be.
	Err error `json:"-"`
}

// String names the leftover and its error.
func (l Leftover) String() string {
	if details := l.details(); details != "" {
		return l.name("") + " (" + details + ")"
	}
	return l.name("")
}

// name omits the instance if the surrounding text already names it.
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

// leftoversText lists leftovers; details that neighbors share are written once.
func leftoversText(leftovers []Leftover, instance string) string {
	list := make([]detailed, len(leftovers))
	for i, l := range leftovers {
		list[i] = detailed{l.name(instance), withoutSubject(l.details(), instance)}
	}
	return detailedText(list)
}

// same reports whether both describe the same resource.
func (l Leftover) same(other Leftover) bool {
	return l.Kind == other.Kind && l.ID == other.ID && l.Instance == other.Instance && l.Seq == other.Seq
}

// leftoverKinds maps effects to kinds of leftovers, in the order in which they are listed. A binding remains with its
// ARQs, and the definition of a mediated device with its ARQ.
var leftoverKinds = []struct {
	effect ledger.Kind
	kind   LeftoverKind
}{
	{ledger.Guest, LeftoverGuest}, {ledger.ARQ, LeftoverARQ}, {ledger.Listed, LeftoverARQs}, {ledger.Claim, LeftoverAllocation},
	{ledger.Part, LeftoverAllocation}, {ledger.Consumer, LeftoverAllocation}, {ledger.NovaMdev, LeftoverMdev}, {ledger.Program, LeftoverRegion}, {ledger.Create, LeftoverCreate},
}

// leftoverKindOf returns the kind of the leftover of an effect.
func leftoverKindOf(kind ledger.Kind) LeftoverKind {
	for _, k := range leftoverKinds {
		if k.effect == kind {
			return k.kind
		}
	}
	return LeftoverMdev
}

// leftoverOf returns the leftover of an effect.
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

// leftoversOf returns the leftovers of a journal and the suspects.
func leftoversOf(j *ledger.Journal) []Leftover {
	left, suspects := remaining(j)
	return append(left, suspects...)
}

// remaining returns the effects of a journal that could not be removed, and the suspects.
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

// isSuspect reports whether an effect may belong to another client, or may still appear.
func isSuspect(e ledger.Effect) bool {
	return e.State == ledger.Foreign || e.State == ledger.Unknown && (e.Kind == ledger.Create || e.Kind == ledger.Claim && e.Amount.Added == nil)
}

// namesOf returns the removed effects as texts for [Error.Undone].
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

// Suspects lists, oldest first, what may have been created by requests of the last hour with an unknown outcome. They
// come from [Error.Leftovers] or [Result.Suspects] of attempts, and have not been found since. [Flow.Reconcile] finds
// them once they exist.
func (f *Flow) Suspects() []Leftover {
	var suspects []Leftover
	for _, e := range f.book.Uncertain() {
		if isSuspect(e) && !slices.ContainsFunc(suspects, leftoverOf(e).same) {
			suspects = append(suspects, leftoverOf(e))
		}
	}
	return suspects
}
