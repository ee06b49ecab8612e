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
	closing              // the host is gone, down, or refuses for a reason that it does not name
)

// transitions has the state after each event, in the order of the events. A host that was claimed on stays one, because the number
// of these is limited.
var transitions = [...][6]state{
	open:     {answer: open, choice: open, pass: passed, claim: claimed, failure: open, closing: closed},
	passed:   {answer: open, choice: open, pass: passed, claim: claimed, failure: passed, closing: closed},
	claimed:  {answer: claimed, choice: reopened, pass: claimed, claim: claimed, failure: reopened, closing: claimed},
	reopened: {answer: claimed, choice: reopened, pass: claimed, claim: claimed, failure: reopened, closing: claimed},
	closed:   {answer: closed, choice: open, pass: closed, claim: claimed, failure: closed, closing: closed},
}

// host is what is known of a host.
type host struct {
	state    state
	refusals int // of its candidates, since the last answer or claim
	failures int // of binds
}
