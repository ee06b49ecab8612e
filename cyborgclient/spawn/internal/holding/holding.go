package holding

import (
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Guest is the response of a host that was asked for a guest.
type Guest uint8

// The responses.
const (
	Silent Guest = iota // no response, or not asked
	Absent
	Present
)

// Snapshot is the observed state of an instance.
type Snapshot struct {
	// Host is the compute node, or its short name, on which the caller believes the instance to be; empty for none.
	Host string
	// Down are hosts that the caller knows to be down. No guest runs there.
	Down []string
	// ARQs are all ARQs of the instance.
	ARQs []cyborgclient.ARQ
	// Held is its allocation, by provider. It is nil if Placement was not asked, or did not respond.
	Held placement.Resources
	// Nodes are the compute nodes of the providers in Held. Providers that share their inventory with other trees,
	// such as shared disk, have none.
	Nodes map[string]string
	// Guests are the responses by host.
	Guests map[string]Guest
}

// Verdict says what an operation may do with the resources of an instance on another host than its own.
type Verdict uint8

// The verdicts.
const (
	Free    Verdict = iota // no guest uses it
	Kept                   // a guest from before an evacuation uses it
	Moved                  // the instance is there
	Unknown                // the instance may be there: the host does not respond
)

// Told reports whether ARQs show where the instance is, that is, whether a guest may use one of them.
func (s Snapshot) Told() bool { return len(s.inGuests()) > 0 }

// inGuests returns the ARQs whose devices a guest may use.
func (s Snapshot) inGuests() []cyborgclient.ARQ {
	return slices.DeleteFunc(slices.Clone(s.ARQs), func(arq cyborgclient.ARQ) bool { return !mayHaveGuest(arq.State) })
}

// mayHaveGuest reports whether a guest may use the device of an ARQ. The states of the Wallaby specification, such as
// unknown, describe only the agent.
func mayHaveGuest(state cyborgclient.State) bool {
	return state == cyborgclient.StateBound || !state.Known()
}

// Others returns the other hosts on which the instance may be, sorted: the hosts of its ARQs, and of its allocation
// if no ARQ shows where it is or the caller knows no host.
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

// Judge decides about the resources of the instance on another host:
//
//	                                  guest Present   Absent   Silent
//	the instance is on its own host   Kept            Free     Free
//	it is not known to be there       Moved           Free     Unknown; Free if it holds nothing there
//
// The instance is on its own host if it has an ARQ there that is newer than the ARQs that a guest on the other host
// may use. If no guest uses an ARQ, it is on its own host if it holds resources there and that host responds.
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
	return s.holds(s.Host) && s.Guests[s.Host] != Silent
}

// In returns the ARQs on a host whose devices a guest there may use.
func (s Snapshot) In(host string) []cyborgclient.ARQ {
	return slices.DeleteFunc(s.inGuests(), func(arq cyborgclient.ARQ) bool { return arq.Hostname != host })
}

// Elsewhere returns the host of an instance that has left the caller's host: no ARQ shows where it is, and it holds
// resources only on other hosts.
func (s Snapshot) Elsewhere() (host string, moved bool) {
	if s.Host == "" || s.Told() || len(s.Nodes) == 0 || s.holds(s.Host) {
		return "", false
	}
	return slices.Min(slices.Collect(maps.Values(s.Nodes))), true
}

// holds reports whether the instance holds resources on a host.
func (s Snapshot) holds(host string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s.Nodes)), func(node string) bool { return SameHost(node, host) })
}

// Judged returns the other hosts with a verdict, sorted.
func (s Snapshot) Judged(verdict Verdict) []string {
	return slices.DeleteFunc(s.Others(), func(host string) bool { return s.Judge(host) != verdict })
}

// Unused returns the resources of the instance that no guest from before an evacuation uses.
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

// Newest returns the creation time of the newest ARQ on a host, or zero.
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

// SameHost reports whether two names identify the same host: they are equal, or one is the short name of the other.
// Nova's host is often short, and the name of its compute node, which Cyborg uses, fully qualified.
func SameHost(a, b string) bool {
	if a == b {
		return true
	}
	shortA, domainA, wholeA := strings.Cut(a, ".")
	shortB, domainB, wholeB := strings.Cut(b, ".")
	return shortA == shortB && wholeA != wholeB && domainA+domainB != ""
}

// Hosts returns the hosts on which an instance without a known host is or may be: the host of its newest ARQ that a
// guest may use; else the hosts with a guest; else the hosts that do not respond.
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
