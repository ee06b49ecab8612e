package ledger

import "github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"

// Amount is the effect on the allocation of an instance. A claim is one effect however often it is changed.
type Amount struct {
	// Before is what the instance held before the first claim, or is to hold without a part.
	Before placement.Resources `json:"before,omitempty"`
	// Added is what was accepted. It is released by subtraction, because other clients may change the rest.
	Added placement.Resources `json:"added,omitempty"`
	// Sent is what was sent last, while its outcome is not known, or nil.
	Sent placement.Resources `json:"sent,omitempty"`
	// Generation is the consumer's: that with which Sent was sent, or else that which the last change has made or a read has
	// shown. It is nil for a consumer that does not exist.
	Generation *int `json:"generation,omitempty"`
	// Project and User own the allocation.
	Project string `json:"project,omitempty"`
	User    string `json:"user,omitempty"`

	// late is the newest generation of a change that may still arrive.
	late *int
}

// Wanted is what the instance holds with the effect.
func (m *Amount) Wanted() placement.Resources {
	if m.Sent != nil {
		return placement.Add(m.Before, m.Sent)
	}
	return placement.Add(m.Before, m.Added)
}

// send notes a claim that is sent.
func (m *Amount) send(added placement.Resources, generation *int) {
	m.Sent, m.Generation = added, generation
}

// answered notes the answer to the last claim, and returns the state of the effect: a refused change leaves the one before.
func (m *Amount) answered(state State) State {
	switch {
	case state == Done:
		m.Added, m.Sent, m.Generation = m.Sent, nil, next(m.Generation)
	case state == Refused:
		if m.Sent = nil; m.Added != nil {
			return Done
		}
	case state == Unknown:
		m.mayArrive(m.Generation)
	}
	return state
}

// state is the state of a claim with this amount when no request is under way.
func (m *Amount) state() State {
	switch {
	case m.Sent != nil:
		return Unknown
	case m.Added != nil:
		return Done
	}
	return Refused
}

// next is the generation of a consumer after a change.
func next(generation *int) *int {
	n := 1
	if generation != nil {
		n = *generation + 1
	}
	return &n
}

// mayArrive notes that a change with a generation may still arrive. One without a generation creates the consumer.
func (m *Amount) mayArrive(generation *int) {
	if generation != nil && (m.late == nil || *m.late < *generation) {
		m.late = generation
	}
}

// Shown says what a read of an allocation shows of an effect.
type Shown uint8

// What is shown.
const (
	Absent  Shown = iota // it is not there, and cannot appear
	Present              // it is there
	Others               // another client has replaced it
	Awaited              // it is not there, and may appear: a change with the present generation is under way, or the first one
)

// In compares an effect with what the instance holds, and returns what remains without it.
func (e *Effect) In(held placement.Allocation) (shown Shown, rest placement.Resources) {
	m := e.Amount
	rest = placement.Subtract(held.Resources, m.Added)
	switch {
	case m.Sent != nil:
		return m.sentIn(held, rest)
	case len(held.Resources) == 0:
		return Absent, nil
	case placement.Equal(held.Resources, m.Before), e.Kind == Part && placement.Equal(held.Resources, rest):
		return Absent, held.Resources
	case e.Kind == Part:
		return Present, rest
	case !reaches(held.Generation, m.Generation), !placement.Contains(held.Resources, m.least()):
		return Others, held.Resources
	case e.Kind == Consumer && m.isOutdated(held):
		return Others, held.Resources
	case e.Kind == Consumer:
		return Present, nil
	}
	return Present, rest
}

// sentIn is In for a claim whose outcome is not known. If another client has written since, the claim may be part of what is held.
func (m *Amount) sentIn(held placement.Allocation, rest placement.Resources) (Shown, placement.Resources) {
	isUnderWay := m.Generation != nil && held.Generation != nil && *m.Generation == *held.Generation
	switch {
	case len(held.Resources) == 0, isUnderWay:
		return Awaited, rest
	case placement.Equal(held.Resources, m.Wanted()):
		return Present, placement.Subtract(held.Resources, m.Sent)
	case m.mayBePart(held):
		return Others, held.Resources
	case len(m.Added) > 0 && placement.Contains(held.Resources, m.least()):
		return Present, rest
	}
	return Absent, held.Resources
}

// least is what is held as long as the claim is: of the classes that were claimed also what was held before.
func (m *Amount) least() placement.Resources {
	least := placement.Clone(m.Added)
	for provider, resources := range least {
		for class := range resources {
			resources[class] += m.Before[provider][class]
		}
	}
	return least
}

// mayBePart reports whether what was sent last, and is not what was accepted before, may be part of what is held: another client has
// written after it.
func (m *Amount) mayBePart(held placement.Allocation) bool {
	isFollowed := held.Generation != nil && *held.Generation > *next(m.Generation)
	return isFollowed && !placement.Equal(m.Sent, m.Added) && placement.Contains(held.Resources, m.Wanted())
}

// isOutdated reports whether another client has written an allocation since it was read.
func (m *Amount) isOutdated(held placement.Allocation) bool {
	return m.Generation != nil && (*held.Generation != *m.Generation || !placement.Equal(held.Resources, m.Added))
}

// reaches reports whether a consumer has at least a generation: one that was deleted and created again begins with the first.
func reaches(held, least *int) bool { return least == nil || held != nil && *held >= *least }
