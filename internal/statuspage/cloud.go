package statuspage

import (
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// Cloud is what the page reads. The cost of a method follows what it returns, not the cloud.
type Cloud interface {
	// Now is the time, and whether the clock is manual.
	Now() (now time.Time, manual bool)
	// Trees returns a part of the provider trees, and how many match in all.
	Trees(Query) (trees [][]placementsim.UsedProvider, matching int)
	// Guests returns a part of the guests, and how many match in all.
	Guests(Query) (guests []sim.Guest, matching int)
	// GuestsOf lists the guests of hosts, by host.
	GuestsOf(hosts []string) map[string][]string
	// ProblemsOf says why devices of hosts are not offered as they should be, by host.
	ProblemsOf(hosts []string) map[string][]string
	// LostEvents says of the newest events that were refused, or that a receiver did not take, which they are and why, at most so many.
	LostEvents(limit int) []string
	// ARQs returns a part of the accelerator requests.
	ARQs(Query) fakecyborg.ARQPage
	// Requests returns the newest requests below a number, and the number below which the
	// older ones are, or 0.
	Requests(before uint64, limit int) (requests []sim.Exchange, older uint64)
	Faults() []fault.State
	// Leaks looks for leaks. A check that takes long is made only if it is forced.
	Leaks(force bool) (leaks []string, checked bool)
	// Versions changes with what the sections show; it is called often.
	Versions() Versions
}

// Query selects a part of a list: what contains a text, without the first Skip and at most
// Limit.
type Query struct {
	Text        string
	Skip, Limit int
}

// Section is a part of the page that is updated by itself.
type Section int

// The sections, as they stand on the page.
const (
	Now Section = iota
	Leaks
	Hosts
	Guests
	ARQs
	Flows
	Faults
	sections
)

// Versions are the versions of what the sections show. The order of two versions means nothing.
type Versions [sections]uint64

// String is the name of the section in the page and in its requests.
func (s Section) String() string {
	return [...]string{"now", "leaks", "hosts", "guests", "arqs", "flows", "faults"}[s]
}

// title is empty for the section above the others.
func (s Section) title() string {
	return [...]string{"", "Leaks", "Hosts", "Instances", "Accelerator requests", "Last flows", "Faults"}[s]
}

// sectionOf finds a section by its name.
func sectionOf(name string) (Section, bool) {
	for s := range sections {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}
