package choose

// state says whether the candidates of a host may be tried.
type state uint8

// The states of a host.
const (
	open     state = iota // they may
	passed                // not those of this answer of Placement
	claimed               // one was claimed: other hosts are next
	reopened              // a device of the claimed one could not be bound: another one of the host is next
	closed                // the host cannot be used
)

// event is what happens to a host.
type event uint8

// The events.
const (
	answer  event = iota // Placement has answered again
	choice               // the host was chosen
	pass                 // the host has refused enough
	claim                // a candidate was claimed
	failure              // a device of the claimed candidate could not be bound
	closing              // the host does not exist, is down, or refuses without a reason
)

// transitions has the events that change a state. A host that was claimed on stays one, because the number of these is limited.
var transitions = map[state]map[event]state{
	open:     {pass: passed, claim: claimed, closing: closed},
	passed:   {answer: open, choice: open},
	claimed:  {choice: reopened, failure: reopened},
	reopened: {pass: claimed, claim: claimed, closing: claimed},
	closed:   {choice: open},
}

// after returns the state after an event.
func (s state) after(e event) state {
	if next, changes := transitions[s][e]; changes {
		return next
	}
	return s
}

// host is what is known of a host.
type host struct {
	state    state
	refusals int // of its candidates, since the last answer or claim
	failures int // of binds
}
