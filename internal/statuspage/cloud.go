package statuspage

import (
	"context"
	"iter"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
)

// Cloud is the data of the page. The cost of a method depends on the size of its result, not of the cloud.
type Cloud interface {
	// About says what the cloud is.
	About() About
	// Now is the time, and whether the clock is manual.
	Now() (now time.Time, manual bool)
	// Trees returns a part of the provider trees, and how many match in all.
	Trees(Query) (trees [][]placementsim.UsedProvider, matching int)
	// Totals adds up the inventories and allocations of all trees that contain a text, by resource class.
	Totals(text string) (inventories map[string]placementsim.Inventory, used map[string]int)
	// UnitsInUse counts the units whose attach handles are in use on hosts, by the UUID of the provider and the resource class.
	UnitsInUse(hosts []string) map[[2]string]int
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
	// Record yields all requests with their numbers, oldest first.
	Record() iter.Seq2[uint64, sim.Exchange]
	// Requests returns the newest requests below a number, and the number below which the
	// older ones are, or 0.
	Requests(before uint64, limit int) (requests []sim.Exchange, older uint64)
	// Faults returns the rules, Operations what they may act on, and how.
	Faults() []fault.State
	Operations() []fault.Operation
	// AddFault adds a rule, RemoveFault removes one.
	AddFault(fault.Rule) error
	RemoveFault(fault.Rule)
	// Advance advances a manual clock, until the context ends.
	Advance(context.Context, time.Duration) error
	// Flavors and DeviceProfiles list the possible requests. Explain returns why hosts are not
	// candidates for a query of allocation candidates. Hosts that are candidates come last.
	Flavors() []requestspec.Flavor
	DeviceProfiles() []requestspec.Profile
	Explain(query string, shown Query) (Explanation, error)
	// Unrecognized lists what clients sent and no service reads.
	Unrecognized() []Unrecognized
	// Leaks looks for leaks. A check that takes long is made only if it is forced. The error says why a check is not
	// possible.
	Leaks(force bool) (leaks []Leak, checked bool, err error)
	// Versions changes with what the sections show; it is called often.
	Versions() Versions
}

// Query selects a part of a list: what contains a text, without the first Skip and at most
// Limit.
type Query struct {
	Text        string
	Skip, Limit int
}

// About describes the cloud.
type About struct {
	Release string    // of its services
	Model   string    // its size
	Since   time.Time // when it was started
}

// Leak is a leaked resource. The ARQ and the instance that it is about are UUIDs, and may be empty.
type Leak struct{ Subject, Text, ARQ, Instance string }

// Unrecognized is a query key or a field of a body that was sent Count times, last by From.
type Unrecognized struct {
	Operation, What, From string
	Count                 int
}

// Explanation lists why hosts are not candidates.
type Explanation struct {
	Reasons           []string // a part of the matching hosts
	Matching          int
	Hosts, Candidates int // in all
}

// Section is a part of the page that is updated by itself.
type Section int

// The sections, in the order of the page.
const (
	Now Section = iota
	Leaks
	Hosts
	Guests
	ARQs
	Flows
	Explain
	Faults
	faultForm // part of Faults; it does not change by itself, so that a reader can fill it in
	Unknown
	sections
)

// Versions are the versions of what the sections show. The order of two versions means nothing.
type Versions [sections]uint64

// String is the name of the section in the page and in its requests.
func (s Section) String() string {
	return [...]string{"now", "leaks", "hosts", "guests", "arqs", "flows", "explain", "faults", "operations", "unrecognized"}[s]
}

// title is empty for the section above the others, and for a part of the one before.
func (s Section) title() string {
	return [...]string{"", "Leaks", "Hosts", "Instances", "Accelerator requests", "Last flows", "Explain", "Faults", "", "Unrecognized input"}[s]
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
