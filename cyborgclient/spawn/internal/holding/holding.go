package holding

import (
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Guest is what a host answers to the question for a guest.
type Guest uint8

// The answers.
const (
	Silent Guest = iota // none; also of a host that was not asked
	Absent
	Present
)

// Snapshot is what one look has shown of an instance.
type Snapshot struct {
	// Host is the compute node on which the caller has the instance, or its short name; empty without one.
	Host string
	// Down are hosts that the caller knows to be down: none has a guest.
	Down []string
	// ARQs are all that the instance has.
	ARQs []cyborgclient.ARQ
	// Held is its allocation, by provider. It is nil if Placement was not asked, or did not answer.
	Held placement.Resources
	// Nodes are the compute nodes of the providers in Held. One that shares its inventory with other trees, such as one of disks, has
	// none.
	Nodes map[string]string
	// Guests are the answers by host.
	Guests map[string]Guest
}

// Verdict is what an operation may do with what an instance has on another host than its own.
type Verdict uint8

// The verdicts.
const (
	Free    Verdict = iota // no guest uses it
	Kept                   // a guest of before an evacuation uses it
	Moved                  // the instance is there
	Unknown                // the instance may be there: the host does not answer
)

// Told reports whether ARQs show where the instance is: a guest may use one of them.
func (s Snapshot) Told() bool { return len(s.inGuests()) > 0 }

// inGuests returns the ARQs whose devices a guest may use.
func (s Snapshot) inGuests() []cyborgclient.ARQ {
	return slices.DeleteFunc(slices.Clone(s.ARQs), func(arq cyborgclient.ARQ) bool { return !mayHaveGuest(arq.State) })
}

// mayHaveGuest reports whether a guest may use the device of an ARQ. The states of the Wallaby
// specification, such as unknown, tell of the agent only.
func mayHaveGuest(state cyborgclient.State) bool {
	return state == cyborgclient.StateBound || !state.Known()
}

// Others returns the other hosts on which the instance may be, sorted: of its ARQs; and of its allocation, if no ARQ shows
// where it is, or the caller has it on no host.
func (s Snapshot) Others() []string {
	others := map[string]bool{}
	for _, arq := range s.inGuests() {
		others[arq.Hostname] = true
	}
	if !s.Told() || s.Host == "" {
		for _, host := range s.Nodes {
			others[host] = true
		}
	}
	maps.DeleteFunc(others, func(host string, _ bool) bool {
		return s.Host != "" && SameHost(host, s.Host) || Among(s.Down, host)
	})
	return slices.Sorted(maps.Keys(others))
}

// Judge judges what the instance has on another host:
//
//	                                  guest Present   Absent   Silent
//	the instance is on its own host   Kept            Free     Free
//	it is not known to be there       Moved           Free     Unknown; Free if it holds nothing there
//
// The instance is on its own host if it has a newer ARQ there than those that a guest on the other one may use; if no guest uses an ARQ, if
// it holds resources there and that host answers.
func (s Snapshot) Judge(host string) Verdict {
	isHome := s.isHome(host)
	switch guest := s.Guests[host]; {
	case guest == Present && isHome:
		return Kept
	case guest == Present:
		return Moved
	case guest == Absent, isHome, s.Held != nil && !s.holds(host):
		return Free
	}
	return Unknown
}

func (s Snapshot) isHome(other string) bool {
	if s.Host == "" {
		return false
	}
	if s.Told() {
		there, here := Newest(other, s.inGuests()), Newest(s.Host, s.ARQs)
		return !there.IsZero() && there.Before(here.Time)
	}
	return s.holdsHere() && s.Guests[s.Host] != Silent
}

// In returns the ARQs of a host whose devices a guest there may use.
func (s Snapshot) In(host string) []cyborgclient.ARQ {
	return slices.DeleteFunc(s.inGuests(), func(arq cyborgclient.ARQ) bool { return arq.Hostname != host })
}

// Elsewhere returns the host of an instance that has left the caller's: no ARQ shows where it is, and it holds resources of other hosts
// only.
func (s Snapshot) Elsewhere() (host string, moved bool) {
	if s.Host == "" || s.Told() || len(s.Nodes) == 0 || s.holdsHere() {
		return "", false
	}
	return slices.Min(slices.Collect(maps.Values(s.Nodes))), true
}

// holdsHere reports whether the instance holds resources of its own host.
func (s Snapshot) holdsHere() bool { return s.Host != "" && s.holds(s.Host) }

// holds reports whether the instance holds resources of a host.
func (s Snapshot) holds(host string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s.Nodes)), func(node string) bool { return SameHost(node, host) })
}

// Judged returns the other hosts with a verdict, sorted.
func (s Snapshot) Judged(verdict Verdict) []string {
	return slices.DeleteFunc(s.Others(), func(host string) bool { return s.Judge(host) != verdict })
}

// Unused returns what the instance holds and no guest of before an evacuation uses.
func (s Snapshot) Unused() placement.Resources {
	unused := placement.Resources{}
	kept := s.Judged(Kept)
	for provider, node := range s.Nodes {
		if !slices.Contains(kept, node) {
			unused[provider] = s.Held[provider]
		}
	}
	return unused
}

// Newest is the creation time of the last ARQ on a host; zero without one.
func Newest(host string, arqs []cyborgclient.ARQ) (last cyborgclient.Time) {
	for _, arq := range arqs {
		if host != "" && SameHost(arq.Hostname, host) && arq.CreatedAt.After(last.Time) {
			last = arq.CreatedAt
		}
	}
	return last
}

// Among reports whether a host is one of a list.
func Among(hosts []string, host string) bool {
	return slices.ContainsFunc(hosts, func(other string) bool { return SameHost(host, other) })
}

// SameHost reports whether two names are one host's: equal, or one is the short name of
// the other. Nova's host is often short where its compute node, which Cyborg has, is a
// fully qualified name.
func SameHost(a, b string) bool {
	if a == b {
		return true
	}
	shortA, domainA, wholeA := strings.Cut(a, ".")
	shortB, domainB, wholeB := strings.Cut(b, ".")
	return shortA == shortB && wholeA != wholeB && domainA+domainB != ""
}

// Hosts returns the hosts on which an instance is, or may be, if the caller has it on none: the host of its newest ARQ in a guest; without
// one those with a guest; without any those that do not answer.
func (s Snapshot) Hosts() []string {
	may := slices.DeleteFunc(s.Others(), func(host string) bool { return s.Guests[host] == Absent })
	if arqs := slices.DeleteFunc(s.inGuests(), func(arq cyborgclient.ARQ) bool { return !slices.Contains(may, arq.Hostname) }); len(arqs) > 0 {
		newest := slices.MaxFunc(arqs, func(a, b cyborgclient.ARQ) int { return a.CreatedAt.Compare(b.CreatedAt.Time) })
		return []string{newest.Hostname}
	}
	if present := slices.DeleteFunc(slices.Clone(may), func(host string) bool { return s.Guests[host] != Present }); len(present) > 0 {
		return present
	}
	return may
}
