package spawn

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// candidatesPerHost is how many candidates of one host are tried.
const candidatesPerHost = 16

// alternates yields the chosen candidate, then the other candidates of its host, then
// those of the next hosts, up to Config.MaxAttempts hosts, as far as the refusals so far do
// not rule them out. A host is passed by when it has none left.
func (a *Attempt) alternates(refused *refusals) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		next, more := *a.Chosen, true
		for hosts := 0; more && hosts < a.flow.config.MaxAttempts; hosts++ {
			if !yield(next) {
				return
			}
			left := candidatesPerHost - 1
			for _, c := range a.Candidates {
				if c.Root != next.Root || left == 0 || refused.ruleOut(c) {
					continue
				}
				left--
				if !yield(c) {
					return
				}
			}
			a.passed[next.Root] = true
			next, more = a.nextHost()
		}
	}
}

// nextHost returns the first candidate of the first host that was neither claimed on nor
// passed by.
func (a *Attempt) nextHost() (Candidate, bool) {
	i := slices.IndexFunc(a.Candidates, func(c Candidate) bool { return !a.tried[c.Root] && !a.passed[c.Root] })
	if i < 0 {
		return Candidate{}, false
	}
	return a.Candidates[i], true
}

// noteBroken notes the devices that could not be bound: of the ARQs that are BindFailed, or all of a bind that was refused because
// of one, which the refusal does not name.
func (a *Attempt) noteBroken(err error) {
	var notBound *NotBoundError
	isRefused := errors.Is(err, cyborgclient.ErrNoFreeHandle) || errors.Is(err, cyborgclient.ErrRegionRefused)
	errors.As(err, &notBound)
	for _, b := range a.Bindings {
		hasFailed := notBound != nil && slices.ContainsFunc(notBound.ARQs, func(arq cyborgclient.ARQ) bool {
			return arq.UUID == b.ARQ && arq.State == cyborgclient.StateBindFailed
		})
		if (hasFailed || isRefused) && a.Chosen != nil {
			a.broken[b.DeviceRP] = a.Chosen.Root
		}
	}
}

// nextDevice returns a candidate of the same host without the devices that could not be bound there, if there were any. As many
// devices of one host are tried as hosts.
func (a *Attempt) nextDevice() (Candidate, bool) {
	tries := 0
	for _, root := range a.broken {
		if root == a.Chosen.Root {
			tries++
		}
	}
	if tries == 0 || tries >= a.flow.config.MaxAttempts*len(a.deviceGroups()) {
		return Candidate{}, false
	}
	i := slices.IndexFunc(a.Candidates, func(c Candidate) bool {
		isBroken := func(provider string) bool { return a.broken[provider] != "" }
		return c.Root == a.Chosen.Root && !slices.ContainsFunc(a.deviceProviders(c), isBroken)
	})
	if i < 0 {
		return Candidate{}, false
	}
	return a.Candidates[i], true
}

// refusals are the refused claims of one step. Another client has taken a device since
// the candidates were listed, so that every candidate with it would be refused as well.
type refusals struct {
	room     map[inventory]int // smallest refused amount
	unusable map[string]bool   // providers that are gone, or whose card Nova has
	busy     map[string]bool   // roots of hosts whose claims meet changes by others
	hosts    map[string]bool   // roots of hosts that refuse without naming what is missing
	outdated bool              // another answer may have other candidates
	tried    []refusedHost     // in the order of their last refusal
	devices  []refusedDevices
	owner    error // the last conflict of owners
}

// refusedHost is a host whose candidates were refused.
type refusedHost struct {
	name       string
	candidates int
	err        error // the last refusal
}

// refusedDevices are the devices of a host that were refused.
type refusedDevices struct {
	root      string
	providers []string
	err       error // the last refusal
}

type inventory struct{ provider, class string }

func newRefusals() *refusals {
	r := &refusals{unusable: map[string]bool{}, hosts: map[string]bool{}}
	r.forget()
	return r
}

// forget drops what may be otherwise in another answer.
func (r *refusals) forget() {
	r.room, r.busy, r.outdated = map[inventory]int{}, map[string]bool{}, false
}

// missingInventory matches the refusal of a claim: "Unable to create allocation for
// 'PGPU' on resource provider '<uuid>'".
var missingInventory = regexp.MustCompile(`for '([A-Z0-9_]+)' on resource provider '([0-9a-f-]{36})'`)

// refusedInventory is what a claim was refused for, if Placement names it.
func refusedInventory(err error) (missing inventory, named bool) {
	if placement.StatusOf(err) != http.StatusConflict {
		return inventory{}, false
	}
	found := missingInventory.FindStringSubmatch(placement.DetailOf(err))
	if found == nil {
		return inventory{}, false
	}
	return inventory{provider: found[2], class: found[1]}, true
}

// goneProvider matches the refusal of a claim on a device that was removed.
var goneProvider = regexp.MustCompile(`resource provider '([0-9a-f-]{36})' that does not exist`)

// add adds a refusal. It reports false when no other candidate may succeed: a conflict of
// the consumer fails on every host (nova/scheduler/client/report.py), and so does what is
// no conflict, but for a provider that is gone. When Placement does not name what is missing,
// the next host is tried.
func (r *refusals) add(host string, c Candidate, err error) bool {
	again := refusedHost{name: host, candidates: 1, err: err}
	if i := slices.IndexFunc(r.tried, func(t refusedHost) bool { return t.name == host }); i >= 0 {
		again.candidates += r.tried[i].candidates
		r.tried = slices.Delete(r.tried, i, i+1)
	}
	r.tried = append(r.tried, again)
	missing, named := refusedInventory(err)
	var conflict *OwnerConflictError
	gone := goneProvider.FindStringSubmatch(placement.DetailOf(err))
	switch {
	case errors.As(err, &conflict):
		r.owner, r.unusable[conflict.provider] = err, true
		return true
	case placement.StatusOf(err) == http.StatusBadRequest && gone != nil:
		r.unusable[gone[1]] = true
	case placement.StatusOf(err) != http.StatusConflict || placement.ConsumerConflict(err):
		return false
	case named:
		r.room[missing] = min(cmp.Or(r.room[missing], math.MaxInt), c.Allocations[missing.provider][missing.class])
		if missing.provider != c.Root {
			r.addDevice(c.Root, missing.provider, err)
		}
	case placement.ConcurrentUpdate(err):
		r.busy[c.Root] = true
	default:
		r.hosts[c.Root] = true
	}
	r.outdated = true
	return true
}

func (r *refusals) addDevice(root, provider string, err error) {
	i := slices.IndexFunc(r.devices, func(d refusedDevices) bool { return d.root == root })
	if i < 0 {
		i = len(r.devices)
		r.devices = append(r.devices, refusedDevices{root: root})
	}
	r.devices[i].providers, r.devices[i].err = append(r.devices[i].providers, provider), err
}

// ruleOut reports whether a candidate would be refused.
func (r *refusals) ruleOut(c Candidate) bool {
	if r.hosts[c.Root] || r.busy[c.Root] {
		return true
	}
	for provider, resources := range c.Allocations {
		if r.unusable[provider] {
			return true
		}
		for class, amount := range resources {
			if least, refused := r.room[inventory{provider, class}]; refused && amount >= least {
				return true
			}
		}
	}
	return false
}

// err is the last refusal; nil without one.
func (r *refusals) err() error {
	if len(r.tried) == 0 {
		return nil
	}
	return r.tried[len(r.tried)-1].err
}

// text is for the decision of a step that has succeeded in the end.
func (r *refusals) text() string {
	switch {
	case len(r.tried) == 0:
		return ""
	case r.owner != nil:
		return "; not claimed before: " + r.owner.Error()
	}
	return "; refused before on " + r.hostsText()
}

// hostsText names the hosts with the number of candidates that were refused, and why. The last refusal and the conflict of
// owners are not repeated.
func (r *refusals) hostsText() string {
	hosts := make([]string, len(r.tried))
	for i, t := range r.tried {
		details := count(t.candidates, "candidate")
		if reason := t.err.Error(); t.err != r.owner && reason != r.err().Error() {
			details += ": " + shortened(reason)
		}
		hosts[i] = t.name + " (" + details + ")"
	}
	if more := len(hosts) - maxTriedNamed; more > 0 {
		return count(more, "other host") + ", " + strings.Join(hosts[more:], ", ")
	}
	return strings.Join(hosts, ", ")
}

// cause is the error of a claim without success. It matches ErrClaim when Placement
// refused it, or nothing was sent.
func (r *refusals) cause() error {
	last := r.err()
	switch {
	case r.owner != nil && last != r.owner:
		return fmt.Errorf("%w on %s: %w; %w", ErrClaim, r.hostsText(), r.owner, last)
	case r.owner != nil || placement.Refused(last):
		return fmt.Errorf("%w on %s: %w", ErrClaim, r.hostsText(), last)
	}
	return last
}
