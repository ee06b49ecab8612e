package store

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// The states of upstream's enumeration. Only [Tx.SetARQState] stores UnbindFailed and Deleting.
const (
	Initial      = "Initial"
	BindStarted  = "BindStarted"
	Bound        = "Bound"
	Unbound      = "Unbound"
	BindFailed   = "BindFailed"
	UnbindFailed = "UnbindFailed"
	Deleting     = "Deleting"
	// Provisioning is the state of the Wallaby specification for a bound request whose
	// mediated device is being created again.
	Provisioning = "provisioning"
)

// Scope selects the requests that a caller may see: those in a project, or all.
type Scope struct {
	Project string
	All     bool
}

// Everything is the scope of Cyborg itself.
func Everything() Scope { return Scope{All: true} }

// sees reports whether the scope has a request.
func (t Tx) sees(sc Scope, a ARQ) bool {
	return sc.All || t.s.cfg.Collation.Equal(a.Project, sc.Project)
}

// ARQs iterates over the requests of an instance, compared byte by byte as upstream does, oldest first, or over all if none is named.
func (t Tx) ARQs(instance string, sc Scope) iter.Seq[ARQ] {
	all := t.s.arqs.All(t.tx)
	if instance != "" {
		all = t.s.arqByInstance.All(t.tx, instance)
	}
	return func(yield func(ARQ) bool) {
		for a := range all {
			if t.sees(sc, a) && !yield(a) {
				return
			}
		}
	}
}

// CountARQs is the number of all requests.
func (t Tx) CountARQs() int { return t.s.arqs.Len(t.tx) }

// ARQ finds a request that the caller may see.
func (t Tx) ARQ(uuid string, sc Scope) (ARQ, error) {
	if a, ok := t.s.arqs.byUUID.Get(t.tx, uuid); ok && t.sees(sc, a) {
		return a, nil
	}
	return ARQ{}, Refuse(NotFound, "ExtArq not found with uuid=%s", uuid)
}

// CreateARQs creates the requests of a profile: one per unit of each group, in the order of the groups. With an error
// it returns the requests created before, which are kept, as upstream.
func (t Tx) CreateARQs(profile, project string, bitstream BitstreamRef, now time.Time) ([]ARQ, error) {
	p, err := t.ProfileByName(profile)
	if err != nil {
		return nil, err
	}
	created := []ARQ{}
	for index, g := range p.Groups {
		requests, err := g.requests(t.s.cfg.Quirks)
		if err != nil {
			return created, err
		}
		for range requests {
			a := ARQ{
				ID: t.s.arqs.ids.Next(t.tx), UUID: t.s.arqs.newUUID(t, nameARQ, t.number(nameARQ)), CreatedAt: now,
				Profile: p.Name, Group: index, State: Initial, Project: project, Bitstream: bitstream,
			}
			t.s.arqs.Put(t.tx, a)
			created = append(created, a)
		}
	}
	return created, nil
}

// SetARQState sets the state of a request. It returns an error if the state is not possible.
func (t Tx) SetARQState(uuid, state string, now time.Time) error {
	a, err := t.ARQ(uuid, Everything())
	if err != nil {
		return err
	}
	if _, busy := t.s.leaseByHandle.Get(t.tx, a.Handle); busy {
		return fmt.Errorf("ARQ %s: the agent is working on it", uuid)
	}
	problem := ""
	switch state {
	case Bound, Provisioning:
		if a.Handle == "" {
			problem = "it holds no attach handle"
		}
	case Initial, Unbound:
		if a.Handle != "" {
			problem = "it holds attach handle " + a.Handle
		}
	default:
		if !slices.Contains(storedStates(), state) {
			problem = "there is no such state to store"
		}
	}
	if problem != "" {
		return fmt.Errorf("ARQ %s, %s: %s", uuid, state, problem)
	}
	a.Attempt++ // a bind in progress is overtaken
	if state == Initial || state == Unbound {
		a.Host, a.Provider, a.Instance = "", "", ""
	}
	a.State, a.UpdatedAt, a.Failure, a.RestoreFailures = state, now, "", 0
	t.s.arqs.Put(t.tx, a)
	return nil
}

// storedStates returns the states in which a request may be stored.
func storedStates() []string {
	return []string{Initial, BindStarted, Bound, Unbound, BindFailed, UnbindFailed, Deleting, Provisioning}
}

// Unbind makes a request without a handle Unbound.
func (t Tx) Unbind(a ARQ, now time.Time) {
	a.State, a.Host, a.Provider, a.Instance, a.UpdatedAt, a.Failure, a.RestoreFailures = Unbound, "", "", "", now, "", 0
	t.s.arqs.Put(t.tx, a)
}

// DeleteARQ deletes a request without a handle.
func (t Tx) DeleteARQ(a ARQ) { t.s.arqs.Delete(t.tx, a.ID) }
