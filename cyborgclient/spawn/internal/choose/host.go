package choose

// state says whether the candidates on a host may be tried.
type state uint8

// The states of a host.
const (
	open     state = iota // they may be tried
	passed                // not before the next response of Placement
	claimed               // one was claimed: other hosts come next
	reopened              // a device of the claimed candidate could not be bound: another one on the host comes next
	closed                // the host cannot be used
)

// event is an event of a host.
type event uint8

// The events.
const (
	answer  event = iota // Placement has returned new candidates
	choice               // the host was chosen
	pass                 // the host has refused enough
	claim                // a candidate was claimed
	failure              // a device of the claimed candidate could not be bound
	closing              // the host does not exist, is down, or refuses without a reason
)

// transitions lists the events that change a state. A host on which a candidate was claimed stays in claimed or
// reopened, because the number of such hosts is limited.
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

// host is the known state of a host.
type host struct {
	state    state
	refusals int // of its candidates, since the last response or claim
	failures int // of binds
}
