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
	Guest    Kind = "guest"     // the guest of the instance on a host, or its domain: the instance
	Program  Kind = "program"   // the content of a region of an FPGA: the deployable
	Power    Kind = "power"     // the power state of a guest, which is not restored: the instance
)

// State says how far an effect is.
type State uint8

// The states. An effect begins as Sent, or as Done or Found if it exists.
const (
	none    State = iota
	Sent          // its request was recorded, and has no answer yet
	Done          // it was made
	Found         // it was read, and the operation is to remove it
	Refused       // it was not applied, or is not to be removed
	Unknown       // no answer says whether it exists
	Undoing       // its removal was recorded
	Left          // it exists, and its removal failed
	Foreign       // it is another client's
	Undone        // it does not exist
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"none", "sent", "done", "found", "refused", "unknown", "undoing", "left", "foreign", "undone"}[s]
}

// transitions are the states that may follow each one. A change of an allocation is sent again and again.
var transitions = map[State][]State{
	none:    {Sent, Done, Found, Foreign},
	Sent:    {Done, Refused, Unknown},
	Done:    {Sent, Unknown, Undoing, Left, Foreign, Undone},
	Found:   {Sent, Refused, Unknown, Undoing, Left, Foreign, Undone},
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
	Seq      int    `json:"seq"` // its number among those of all journals of the book
	Kind     Kind   `json:"kind"`
	ID       string `json:"id"`
	Instance string `json:"-"`
	Host     string `json:"host,omitempty"` // of a guest
	State    State  `json:"state"`
	// Err is why its state is not known, or why it was not removed.
	Err error `json:"-"`

	// Holds are the numbers of the effects that remain as long as this one does: the guest's devices, the ARQ of a mediated device.
	Holds []int `json:"holds,omitempty"`

	Guard  Guard             `json:"guard,omitempty"`  // of an ARQ
	ARQ    *cyborgclient.ARQ `json:"arq,omitempty"`    // of ARQ and Mdev, as last shown
	Amount *Amount           `json:"amount,omitempty"` // of Claim, Part and Consumer
	Origin *Origin           `json:"origin,omitempty"` // of Create
	Saved  *Saved            `json:"saved,omitempty"`  // of a Guest that is to be restored, and not to be removed

	journal *Journal
	changed time.Time // of the state
}

// Saved is a guest before it was changed.
type Saved struct {
	Domain  []byte `json:"domain"`
	Running bool   `json:"running"`
}

// Origin describes a create whose ARQs are not known.
type Origin struct {
	Project string    `json:"project"`
	Missing int       `json:"missing"`        // how many it may have made that were not found
	Began   time.Time `json:"began"`          // by the clock of this host
	Since   time.Time `json:"since,omitzero"` // by the clock of the server, or earlier
}

// Pending reports that the effect exists or may exist.
func (e *Effect) Pending() bool {
	return e.State != none && e.State != Refused && e.State != Undone
}

// Changed is when the state last changed.
func (e *Effect) Changed() time.Time { return e.changed }

// to changes the state.
func (e *Effect) to(next State, err error) {
	if !slices.Contains(transitions[e.State], next) && e.State != next {
		panic(fmt.Sprintf("ledger: %s %s cannot become %s: it is %s", e.Kind, e.ID, next, e.State))
	}
	if e.State != next {
		e.changed = time.Now()
	}
	e.State, e.Err = next, err
}

// outcome is what the answer to a request says about its effect.
func outcome(kind Kind, err error) State {
	isRefused := false
	switch kind {
	case Claim, Part, Consumer:
		isRefused = placement.Refused(err)
	case Create, Binding, Program:
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
