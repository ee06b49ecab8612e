package choose

const (
	perHost = 2  // how many candidates are asked for, for each host: a limit spreads over the hosts
	growth  = 4  // how many times more are asked for next
	most    = 64 // how many times Limits.All are asked for at most
)

// Limits are how many candidates Placement is asked for: First, then four times as many while there are more and those that can be
// used are of fewer than Hosts hosts, up to All. When none of these can be used, up to Most. All are 0 to ask for all candidates.
type Limits struct{ First, All, Most, Hosts int }

// Fixed asks for a number of candidates, and for no other number; 0 means all that there are.
func Fixed(number, hosts int) Limits { return Limits{number, number, number, hosts} }

// Whole asks for all candidates at once, up to a number, as is needed where their order is not Placement's.
func Whole(all, hosts int) Limits { return Limits{all, all, most * all, hosts} }

// Few asks for few candidates at first: two for each host that may be tried and for each alternate, times the orders of several
// devices, which Placement lists one after the other.
func Few(all, attempts, devices, hosts int) Limits {
	first := min(perHost*(2*min(attempts, all)-1), all)
	for n := range devices {
		first = min(first*(n+1), all)
	}
	return Limits{first, all, most * all, hosts}
}

// after returns how many candidates are asked for after an answer.
func (l Limits) after(asked int, usable []Candidate) int {
	if len(usable) == 0 && asked >= l.All {
		return min(growth*asked, l.Most)
	}
	return min(growth*asked, l.All)
}
