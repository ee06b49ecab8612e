package spawn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// LeftoverKind says what a [Leftover] is.
type LeftoverKind string

// The kinds of leftovers; the ID of a leftover is given in parentheses.
const (
	LeftoverARQ        LeftoverKind = "arq"              // an ARQ (its UUID)
	LeftoverARQs       LeftoverKind = "arqs of instance" // all ARQs, which could not be listed (the instance)
	LeftoverAllocation LeftoverKind = "allocation"       // an allocation in Placement (the instance)
	LeftoverGuest      LeftoverKind = "guest"            // a guest of the hypervisor (the instance)
	LeftoverMdev       LeftoverKind = "mdev"             // a mediated device of Nova's (its UUID)
	LeftoverCreate     LeftoverKind = "arq create"       // ARQs of a create whose reply was lost (the device profile's name)
)

// Leftover is something that may still hold an accelerator.
type Leftover struct {
	Kind LeftoverKind `json:"kind"`
	ID   string       `json:"id"`
	// Instance is the one that it was made for; empty where it is not known.
	Instance string `json:"instance,omitempty"`
	// Certain is true if it was read after the last request that could have changed it, and existed. If not, no
	// such answer was read, or it did not exist: it may be another client's (an ARQ), or may still
	// appear (an allocation, a create), see [Flow.Suspects]. A guest that Hooks.Destroy could not remove and a
	// mediated device are never certain, because no read shows them.
	Certain bool `json:"certain"`
	// Seq, Count, ProjectID and Since describe a [LeftoverCreate]: it may have made up to
	// Count ARQs in the project, with a creation time from Since on. Seq is its number among
	// the creates of the Flow, from 1: several may have begun within one second.
	Seq       int       `json:"seq,omitempty"`
	Count     int       `json:"count,omitempty"`
	ProjectID string    `json:"project_id,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	// Reason is set by [Flow.Reconcile]: why this belongs to no living instance.
	Reason string `json:"reason,omitempty"`
	// Err is why it could not be given back; nil if it was, or was not to be.
	Err error `json:"-"`
}

// String names the leftover and its error.
func (l Leftover) String() string {
	if details := l.details(); details != "" {
		return l.name("") + " (" + details + ")"
	}
	return l.name("")
}

// name leaves out an instance that the text around it names.
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

// leftoversText names leftovers, and what neighbors have in common once.
func leftoversText(leftovers []Leftover, instance string) string {
	list := make([]detailed, len(leftovers))
	for i, l := range leftovers {
		list[i] = detailed{l.name(instance), withoutSubject(l.details(), instance)}
	}
	return detailedText(list)
}

// same reports whether both are about the same thing.
func (l Leftover) same(other Leftover) bool {
	return l.Kind == other.Kind && l.ID == other.ID && l.Instance == other.Instance && l.Seq == other.Seq
}

const (
	suspectLifetime = time.Hour
	maxSuspects     = 4096
)

// suspectList holds the suspects of the last hour, the oldest first.
type suspectList struct {
	mu   sync.Mutex
	list []suspect
}

type suspect struct {
	Leftover
	until         time.Time
	claim, before placement.Resources // of a claim, and what the instance held before

	generation int // that a change needs
}

func (s *suspectList) add(leftovers []Leftover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for _, l := range leftovers {
		if !slices.ContainsFunc(s.list, func(known suspect) bool { return known.same(l) }) {
			s.list = append(s.list, suspect{Leftover: l, until: time.Now().Add(suspectLifetime)})
		}
	}
	s.list = s.list[max(0, len(s.list)-maxSuspects):]
}

// addClaim adds a claim that may still arrive.
func (s *suspectList) addClaim(l Leftover, claim, before placement.Resources) {
	s.add([]Leftover{l})
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, known := range s.list {
		if known.same(l) {
			s.list[i].claim, s.list[i].before = placement.Clone(claim), placement.Clone(before)
		}
	}
}

// addChange adds a change of what an instance holds, with the generation that it needs.
func (s *suspectList) addChange(instance string, generation int) {
	l := Leftover{Kind: LeftoverAllocation, ID: instance}
	s.add([]Leftover{l})
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, known := range s.list {
		if known.same(l) {
			s.list[i].generation, s.list[i].until = max(known.generation, generation), time.Now().Add(suspectLifetime)
		}
	}
}

// newestChange returns the highest generation that a change of what an instance holds
// needs.
func (s *suspectList) newestChange(instance string) (generation int, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	i := slices.IndexFunc(s.list, func(known suspect) bool { return known.Kind == LeftoverAllocation && known.ID == instance })
	if i < 0 {
		return 0, false
	}
	return s.list[i].generation, true
}

// claimed reports whether what an instance holds is such a claim.
func (s *suspectList) claimed(instance string, held placement.Resources) bool {
	_, found := s.findClaim(instance, held)
	return found
}

// withoutClaim returns what an instance held before such a claim, if it held something, or what it
// holds.
func (s *suspectList) withoutClaim(instance string, held placement.Resources) placement.Resources {
	if claim, found := s.findClaim(instance, held); found && len(claim.before) > 0 {
		return claim.before
	}
	return held
}

func (s *suspectList) findClaim(instance string, held placement.Resources) (claim suspect, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	i := slices.IndexFunc(s.list, func(known suspect) bool {
		return known.Kind == LeftoverAllocation && known.ID == instance && len(held) > 0 && placement.Equal(known.claim, held)
	})
	if i < 0 {
		return suspect{}, false
	}
	return s.list[i], true
}

// remove removes what a function reports as settled.
func (s *suspectList) remove(settled func(Leftover) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(known suspect) bool { return settled(known.Leftover) })
}

func (s *suspectList) all() []Leftover {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	all := make([]Leftover, len(s.list))
	for i, known := range s.list {
		all[i] = known.Leftover
	}
	return all
}

func (s *suspectList) expire() {
	now := time.Now()
	s.list = slices.DeleteFunc(s.list, func(known suspect) bool { return !now.Before(known.until) })
}

// Suspects lists, the oldest first, what requests of the last hour with an unknown outcome may have
// made, in [Error.Leftovers] or [Result.Suspects] of an attempt, and what no one has seen since.
// [Flow.Reconcile] finds it once it exists.
func (f *Flow) Suspects() []Leftover { return f.suspects.all() }

// look reads once whether the leftovers to try again exist; no other code sets their Certain. After a failed read the others
// of the same kind are not certain, either.
func (f *Flow) look(ctx context.Context, c *cleanup) {
	unread := map[LeftoverKind]bool{}
	for i, l := range c.left {
		c.left[i].Certain = false
		if unread[l.Kind] {
			continue
		}
		exists, err := f.exists(ctx, l)
		c.left[i].Certain, unread[l.Kind] = exists && err == nil, err != nil
	}
}

// exists reads whether a leftover exists.
func (f *Flow) exists(ctx context.Context, l left) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, f.config.UnwindTimeout/unwindStages/3)
	defer cancel()
	switch {
	case l.look != nil:
		return l.look(ctx)
	case l.Kind == LeftoverARQ:
		arq, err := f.findARQ(ctx, l.ID)
		return arq != nil, err
	case l.Kind == LeftoverARQs:
		arqs, err := f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: l.ID})
		return len(arqs) > 0, err
	case l.Kind == LeftoverAllocation:
		held, err := f.placement.Allocation(ctx, l.ID)
		return len(held.Resources) > 0, err
	}
	return false, nil
}
