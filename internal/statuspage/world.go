package statuspage

import "time"

// World is what the page shows.
type World struct {
	Now    time.Time
	Manual bool // the clock stands still
	Hosts  []Host
	// States are the states of accelerator requests, in the order of their life.
	States []State
	Leaks  []string
	Faults []Fault
	// Exchanges are requests in the order in which they started.
	Exchanges []Exchange
}

// Host is a compute host.
type Host struct {
	Name      string
	Guests    []string
	Providers []Provider // the root first, each above those below it
}

// Provider is a resource provider.
type Provider struct {
	Name, UUID  string
	Depth       int // 0: the host itself
	Traits      []string
	Inventories []Inventory
}

// Inventory is what a provider has of one resource class.
type Inventory struct {
	Class                 string
	Used, Reserved, Total int
}

// State is a state and the accelerator requests in it.
type State struct {
	Name string
	ARQs []ARQ
}

// ARQ is an accelerator request.
type ARQ struct{ UUID, Profile, Instance, Host, Failure string }

// Fault is a fault rule.
type Fault struct {
	Text string
	Hits int
}

// Exchange is a request and its answer.
type Exchange struct {
	From, To, What string
	Status         int    // 0: no answer
	Fault          string // the action of a fault, if one acted
	Started        time.Time
	Changes        []string // what the request changed, a line each
}

// maxUnits is how many units of an inventory are drawn one by one.
const maxUnits = 32

// Units are the squares of an inventory that is drawn one by one: used, reserved, free.
// It is empty for a larger one, which is drawn as a bar.
func (i Inventory) Units() []string {
	if i.Total > maxUnits || i.Total < 0 {
		return nil
	}
	units := make([]string, 0, i.Total)
	for n := range i.Total {
		switch {
		case n < i.Used:
			units = append(units, "used")
		case n >= i.Total-i.Reserved:
			units = append(units, "reserved")
		default:
			units = append(units, "free")
		}
	}
	return units
}
