package ledger

import "github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"

// Amount is the effect on the allocation of an instance. A claim stays one effect, however often it is changed.
type Amount struct {
	// Before is what the instance held before the first claim, or holds after a part is released.
	Before placement.Resources `json:"before,omitempty"`
	// Added is what Placement accepted. It is released by subtraction, because other clients may change the rest.
	Added placement.Resources `json:"added,omitempty"`
	// Sent is what was sent last while its outcome is unknown, or nil.
	Sent placement.Resources `json:"sent,omitempty"`
	// Generation is the consumer generation: the one with which Sent was sent, or else the one after the last change
	// or from a read. It is nil for a consumer that does not exist.
	Generation *int `json:"generation,omitempty"`
	// Project and User own the allocation.
	Project string `json:"project,omitempty"`
	User    string `json:"user,omitempty"`

	// late is the greatest generation of a change that may still be applied.
	late *int
}

// Wanted returns what the instance holds with the effect.
func (m *Amount) Wanted() placement.Resources {
	if m.Sent != nil {
		return placement.Add(m.Before, m.Sent)
	}
	return placement.Add(m.Before, m.Added)
}

// answered records the response to the last claim, and returns the state of the effect. A refused change keeps the
// previous claim.
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

// state returns the state of a claim with this amount when no request is in progress.
func (m *Amount) state() State {
	switch {
	case m.Sent != nil:
		return Unknown
	case m.Added != nil:
		return Done
	}
	return Refused
}

// next returns the generation of a consumer after a change.
func next(generation *int) *int {
	n := 1
	if generation != nil {
		n = *generation + 1
	}
	return &n
}

// mayArrive records that a change with a generation may still be applied. A change without one creates the consumer.
func (m *Amount) mayArrive(generation *int) {
	if generation != nil && (m.late == nil || *m.late < *generation) {
		m.late = generation
	}
}

// Shown is what a read of an allocation shows about an effect.
type Shown uint8

// The results of a read.
const (
	Absent  Shown = iota // it does not exist, and cannot appear
	Present              // it exists
	Others               // another client has replaced it
	Awaited              // it does not exist, and may appear: a change with the present generation, or the first change, is in progress
)

// In compares an effect with the allocation, and returns what remains without the effect.
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

// sentIn is In for a claim with an unknown outcome. If another client has written since, the claim may be part of the
// allocation.
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

// least returns what the instance holds at least while the claim exists: for each claimed class also the amount held
// before.
func (m *Amount) least() placement.Resources {
	least := placement.Clone(m.Added)
	for provider, resources := range least {
		for class := range resources {
			resources[class] += m.Before[provider][class]
		}
	}
	return least
}

// mayBePart reports whether the last claim sent, if it differs from the accepted one, may be part of the allocation,
// because another client has written after it.
func (m *Amount) mayBePart(held placement.Allocation) bool {
	isFollowed := held.Generation != nil && *held.Generation > *next(m.Generation)
	return isFollowed && !placement.Equal(m.Sent, m.Added) && placement.Contains(held.Resources, m.Wanted())
}

// isOutdated reports whether another client has written the allocation since it was read.
func (m *Amount) isOutdated(held placement.Allocation) bool {
	return m.Generation != nil && (*held.Generation != *m.Generation || !placement.Equal(held.Resources, m.Added))
}

// reaches reports whether a consumer has at least the given generation. A recreated consumer begins with the first
// one.
func reaches(held, least *int) bool { return least == nil || held != nil && *held >= *least }
