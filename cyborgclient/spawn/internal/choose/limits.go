package choose

const (
	perHost = 2  // candidates to ask for per host: Placement spreads a limit over the hosts
	growth  = 4  // factor of the next limit
	most    = 64 // maximum, as a multiple of Limits.All
)

// Limits are the limits of queries for candidates: First, then four times as many while there are more and the usable
// ones are on fewer than Hosts hosts, up to All. If none of these is usable, up to Most. All is 0 to ask for all
// candidates.
type Limits struct{ First, All, Most, Hosts int }

// Fixed always asks for the same number of candidates; 0 means all.
func Fixed(number, hosts int) Limits { return Limits{number, number, number, hosts} }

// Whole asks for all candidates at once, up to a number, as is necessary if they are ordered by the caller.
func Whole(all, hosts int) Limits { return Limits{all, all, most * all, hosts} }

// Few asks for few candidates at first: two for each host that may be tried and for each alternate, times the orders
// of several devices, which Placement lists one after the other.
func Few(all, attempts, devices, hosts int) Limits {
	first := min(perHost*(2*min(attempts, all)-1), all)
	for n := range devices {
		first = min(first*(n+1), all)
	}
	return Limits{first, all, most * all, hosts}
}

// after returns the limit of the next query.
func (l Limits) after(asked int, usable []Candidate) int {
	if len(usable) == 0 && asked >= l.All {
		return min(growth*asked, l.Most)
	}
	return min(growth*asked, l.All)
}
