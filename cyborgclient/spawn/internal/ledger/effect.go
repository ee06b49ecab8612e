package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Kind is what an effect is.
type Kind string

// The kinds of effects, and what identifies one.
const (
	Claim    Kind = "claim"     // what an operation has claimed in Placement: the instance
	Part     Kind = "part"      // a part of the allocation that is to be released: the instance
	Consumer Kind = "consumer"  // the whole allocation that is to be released: the instance
	Create   Kind = "create"    // a POST of ARQs: the device profile
	ARQ      Kind = "arq"       // its UUID
	Listed   Kind = "listed"    // all ARQs that Cyborg lists of the instance: the instance
	Binding  Kind = "binding"   // the PATCH that binds the ARQs of an instance: the instance
	Mdev     Kind = "mdev"      // the definition of a mediated device: its ARQ
	NovaMdev Kind = "nova mdev" // a mediated device of Nova's: its UUID
	Guest    Kind = "guest"     // the guest of the instance on a host: the instance
)

// State says how far an effect is.
type State uint8

// The states. An effect begins as Sent, or as Done if it was read.
const (
	none    State = iota
	Sent          // its request was recorded, and has no answer yet
	Done          // it exists
	Refused       // it was not applied
	Unknown       // no answer says whether it exists
	Undoing       // its removal was recorded
	Left          // it exists, and its removal failed
	Foreign       // it is another client's
	Undone        // it does not exist
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"none", "sent", "done", "refused", "unknown", "undoing", "left", "foreign", "undone"}[s]
}

// transitions are the states that may follow each one. A change of an allocation is sent again and again.
var transitions = map[State][]State{
	none:    {Sent, Done},
	Sent:    {Done, Refused, Unknown},
	Done:    {Sent, Unknown, Undoing, Left, Foreign, Undone},
	Refused: {Sent},
	Unknown: {Sent, Done, Undoing, Left, Foreign, Undone},
	Undoing: {Unknown, Left, Foreign, Undone},
	Left:    {Sent, Unknown, Undoing, Foreign, Undone},
	Foreign: {Undoing, Undone},
	Undone:  {},
}

// Guard is what must be true of an ARQ when it is deleted.
type Guard uint8

// The guards.
const (
	// Own: it is of the answer to a POST of the journal, or was shown as the instance's.
	Own Guard = iota
	// Handed: another client named it. It is deleted if Cyborg shows that it belongs to the instance or to none.
	Handed
	// Unbound: it has no instance; Cyborg refuses the deletion if it got one.
	Unbound
)

// Effect is one change outside. Its fields are read under the lock of the book, and written by this package.
type Effect struct {
	Seq      int // its number among those of all journals of the book
	Kind     Kind
	ID       string
	Instance string
	Host     string // of a guest
	State    State
	// Err is why its state is not known, or why it was not removed.
	Err error

	// Holds are the numbers of the effects that remain as long as this one does: the guest's devices, the ARQ of a mediated device.
	Holds []int

	Guard  Guard             // of an ARQ
	ARQ    *cyborgclient.ARQ // of ARQ and Mdev, as last shown
	Amount *Amount           // of Claim, Part and Consumer
	Origin *Origin           // of Create

	journal *Journal
	changed time.Time // of the state
}

// Origin describes a create whose ARQs are not known.
type Origin struct {
	Project string
	Port    string    // the port that the ARQs are for
	Missing int       // how many it may have made that were not found
	Began   time.Time // by the clock of this host
	Since   time.Time // by the clock of the server, or earlier
}

// Pending reports that the effect exists or may exist.
func (e *Effect) Pending() bool {
	return e.State != Refused && e.State != Undone
}

// Changed is when the state last changed.
func (e *Effect) Changed() time.Time { return e.changed }

// to changes the state.
func (e *Effect) to(next State, err error) {
	if !slices.Contains(transitions[e.State], next) && e.State != next {
		panic(fmt.Sprintf("ledger: %s %s cannot become %s: it is %s", e.Kind, e.ID, next, e.State))
	}
	e.State, e.Err, e.changed = next, err, time.Now()
}

// outcome is what the answer to a request says about its effect.
func outcome(kind Kind, err error) State {
	isRefused := false
	switch kind {
	case Claim, Part, Consumer:
		isRefused = placement.Refused(err)
	case Create, Binding:
		isRefused = !errors.Is(err, cyborgclient.ErrReplyLost)
	}
	switch {
	case err == nil, kind == Binding && isRefused: // Cyborg binds in order: those before the refused one are bound
		return Done
	case isRefused:
		return Refused
	}
	return Unknown
}
