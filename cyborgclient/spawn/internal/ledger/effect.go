package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Kind is the kind of an effect.
type Kind string

// The kinds of effects, and the resource whose ID identifies an effect.
const (
	Claim    Kind = "claim"     // resources claimed in Placement: the instance
	Part     Kind = "part"      // a part of the allocation to release: the instance
	Consumer Kind = "consumer"  // the whole allocation to release: the instance
	Create   Kind = "create"    // a POST of ARQs: the device profile
	ARQ      Kind = "arq"       // its UUID
	Listed   Kind = "listed"    // all ARQs that Cyborg lists of the instance: the instance
	Binding  Kind = "binding"   // the PATCH that binds the ARQs of an instance: the instance
	Mdev     Kind = "mdev"      // the definition of a mediated device: its ARQ
	NovaMdev Kind = "nova mdev" // a mediated device of Nova: its UUID
	Guest    Kind = "guest"     // the guest of the instance on a host, or its domain: the instance
	Program  Kind = "program"   // the content of a region of an FPGA: the deployable
	Power    Kind = "power"     // the power state of a guest, which is not restored: the instance
)

// State is the state of an effect.
type State uint8

// The states. An effect begins as Sent, or as Done or Found if it exists.
const (
	none    State = iota
	Sent          // its request was recorded, and has no response yet
	Done          // it was created
	Found         // it was read, and the operation is to remove it
	Refused       // it was not applied, or is not to be removed
	Unknown       // it is unknown whether it exists
	Undoing       // its removal was recorded
	Left          // it exists, and its removal failed
	Foreign       // it belongs to another client
	Undone        // it does not exist
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"none", "sent", "done", "found", "refused", "unknown", "undoing", "left", "foreign", "undone"}[s]
}

// transitions lists the states that may follow each state. A change of an allocation may be sent several times.
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

// Guard is a condition for the deletion of an ARQ.
type Guard uint8

// The guards.
const (
	// Own: the ARQ is in the response to a POST of the journal, or was shown as the instance's.
	Own Guard = iota
	// Handed: another client handed the ARQ over. It is deleted if Cyborg shows that it belongs to the instance or to
	// none.
	Handed
	// Unbound: the ARQ has no instance; Cyborg refuses the deletion if it has got one.
	Unbound
)

// Effect is one change in a service or on a host. Its fields are read under the lock of the book, and written by this
// package.
type Effect struct {
	Seq      int    `json:"seq"` // sequence number among all effects of the book
	Kind     Kind   `json:"kind"`
	ID       string `json:"id"`
	Instance string `json:"-"`
	Host     string `json:"host,omitempty"` // of a guest
	State    State  `json:"state"`
	// Err is why the state is unknown, or why the effect was not removed.
	Err error `json:"-"`

	// Holds are the sequence numbers of the effects that must be kept as long as this one exists: the guest's
	// devices, the ARQ of a mediated device.
	Holds []int `json:"holds,omitempty"`

	Guard  Guard             `json:"guard,omitempty"`  // of an ARQ
	ARQ    *cyborgclient.ARQ `json:"arq,omitempty"`    // of ARQ and Mdev, as last shown
	Amount *Amount           `json:"amount,omitempty"` // of Claim, Part and Consumer
	Origin *Origin           `json:"origin,omitempty"` // of Create
	Saved  *Saved            `json:"saved,omitempty"`  // of a Guest to restore instead of remove

	journal *Journal
	changed time.Time // of the state
}

// Saved is the state of a guest before it was changed.
type Saved struct {
	Domain  []byte `json:"domain"`
	Running bool   `json:"running"`
}

// Origin describes a create whose ARQs are unknown.
type Origin struct {
	Project string    `json:"project"`
	Missing int       `json:"missing"`        // number of its ARQs that were not found
	Began   time.Time `json:"began"`          // by the clock of this host
	Since   time.Time `json:"since,omitzero"` // by the clock of the server, or earlier
}

// Pending reports whether the effect exists or may exist.
func (e *Effect) Pending() bool {
	return e.State != none && e.State != Refused && e.State != Undone
}

// Changed returns when the state last changed.
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

// outcome returns the state of an effect after the response to its request.
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
