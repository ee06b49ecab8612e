package spawn

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// refusals are the refused claims of one step, for its error.
type refusals struct {
	tried   []refusedHost // in the order of their last refusal
	devices []refusedDevices
	owner   error // the last conflict of owners
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

// missingInventory matches the refusal of a claim: "Unable to create allocation for
// 'PGPU' on resource provider '<uuid>'".
var missingInventory = regexp.MustCompile(`for '([A-Z0-9_]+)' on resource provider '([0-9a-f-]{36})'`)

// goneProvider matches the refusal of a claim on a device that was removed.
var goneProvider = regexp.MustCompile(`resource provider '([0-9a-f-]{36})' that does not exist`)

// refusalOf returns why a claim was refused. Others is false if no other candidate can succeed: a conflict of the
// consumer fails on every host (nova/scheduler/client/report.py), and so does any other error that is not a conflict,
// except for a provider that does not exist.
func refusalOf(err error) (r choose.Refusal, others bool) {
	missing := missingInventory.FindStringSubmatch(placement.DetailOf(err))
	gone := goneProvider.FindStringSubmatch(placement.DetailOf(err))
	var conflict *OwnerConflictError
	switch status := placement.StatusOf(err); {
	case errors.As(err, &conflict):
		return choose.Refusal{Reason: choose.Owned, Provider: conflict.provider}, true
	case status == http.StatusBadRequest && gone != nil:
		return choose.Refusal{Reason: choose.Gone, Provider: gone[1]}, true
	case status != http.StatusConflict || placement.ConsumerConflict(err):
		return choose.Refusal{}, false
	case missing != nil:
		return choose.Refusal{Reason: choose.Short, Provider: missing[2], Class: missing[1]}, true
	case placement.ConcurrentUpdate(err):
		return choose.Refusal{Reason: choose.Busy}, true
	}
	return choose.Refusal{Reason: choose.Unnamed}, true
}

// add adds a refusal.
func (r *refusals) add(host string, c Candidate, err error) {
	again := refusedHost{name: host, candidates: 1, err: err}
	if i := slices.IndexFunc(r.tried, func(t refusedHost) bool { return t.name == host }); i >= 0 {
		again.candidates += r.tried[i].candidates
		r.tried = slices.Delete(r.tried, i, i+1)
	}
	r.tried = append(r.tried, again)
	switch reason, _ := refusalOf(err); {
	case reason.Reason == choose.Owned:
		r.owner = err
	case reason.Reason == choose.Short && reason.Provider != c.Root:
		r.addDevice(c.Root, reason.Provider, err)
	}
}

func (r *refusals) addDevice(root, provider string, err error) {
	i := slices.IndexFunc(r.devices, func(d refusedDevices) bool { return d.root == root })
	if i < 0 {
		i = len(r.devices)
		r.devices = append(r.devices, refusedDevices{root: root})
	}
	r.devices[i].providers, r.devices[i].err = append(r.devices[i].providers, provider), err
}

// err is the last refusal; nil without one.
func (r *refusals) err() error {
	if len(r.tried) == 0 {
		return nil
	}
	return r.tried[len(r.tried)-1].err
}

// text describes the refusals for the decision of a step that has finally succeeded.
func (r *refusals) text() string {
	switch {
	case len(r.tried) == 0:
		return ""
	case r.owner != nil:
		return "; not claimed before: " + r.owner.Error()
	}
	return "; refused before on " + r.hostsText()
}

// hostsText lists the hosts with the number of refused candidates and the reason. The last refusal and the conflict
// of owners are not repeated.
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

// cause returns the error of a claim that did not succeed. It matches ErrClaim if Placement refused the claim, or
// nothing was sent.
func (r *refusals) cause() error {
	last := r.err()
	switch {
	case last == nil:
		return fmt.Errorf("%w: no candidate remains", ErrClaim)
	case r.owner != nil && last != r.owner:
		return fmt.Errorf("%w on %s: %w; %w", ErrClaim, r.hostsText(), r.owner, last)
	case r.owner != nil || placement.Refused(last):
		return fmt.Errorf("%w on %s: %w", ErrClaim, r.hostsText(), last)
	}
	return last
}
