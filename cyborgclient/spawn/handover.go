package spawn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Handover passes an attempt, as JSON, from the process that schedules and binds
// (Nova's conductor) to the one that waits and starts the guest (nova-compute). It
// has all that the second needs to continue and to give everything back.
type Handover struct {
	Instance string `json:"instance"`
	// Host is the name of the compute node.
	Host string `json:"host"`
	// DeviceProfile is that of the flavor; empty for a flavor without one.
	DeviceProfile string `json:"device_profile,omitempty"`
	// ARQs are bound; PortOf has the ports, by ARQ, of those that are not of the flavor.
	ARQs   []matching.Match  `json:"arqs"`
	PortOf map[string]string `json:"port_of,omitempty"`
	// Flavor is the size of the domain when none is given.
	Flavor requestspec.Flavor `json:"flavor"`
	// Claimed is the allocation after the claim, Before the one before it:
	// provider -> resource class -> amount.
	Claimed map[string]map[string]int `json:"claimed"`
	Before  map[string]map[string]int `json:"before,omitempty"`
	// Generation is that of the consumer which the claim replaced; nil for one that held nothing.
	Generation *int `json:"generation,omitempty"`
	// Ports are the instance's ports, as in the request.
	Ports []Port `json:"ports,omitempty"`
	// Alternates are the candidates of the hosts that may still be tried, in this order, as
	// those that Nova's conductor passes to nova-compute. Profiles are the device profiles of
	// flavor and ports, with which the ARQs are compared, and created there; an earlier version
	// passed none without alternates. Image is that of the request.
	Alternates []Candidate           `json:"alternates,omitempty"`
	Profiles   []requestspec.Profile `json:"profiles,omitempty"`
	Image      string                `json:"image,omitempty"`
	// Kept are ARQs of hosts that were tried before, which Cyborg keeps until the agents of
	// those hosts answer: see [Result.Leftovers].
	Kept []KeptARQ `json:"kept,omitempty"`
	// ProjectID and UserID own the allocation.
	ProjectID string `json:"project_id"`
	UserID    string `json:"user_id"`
}

// KeptARQ is an ARQ of another host in a [Handover].
type KeptARQ struct {
	ARQ    string `json:"arq"`
	Host   string `json:"host"`
	Reason string `json:"reason"` // why Cyborg did not delete it
}

// Handover ends the attempt on this side after Bind and unregisters its events.
// Unwind still works, in case the other side cannot be reached. That the attempt was handed over is
// recorded before the handover is returned: see [Flow.Recover]. The error matches
// ErrOrder before Bind.
func (a *Attempt) Handover(ctx context.Context) (Handover, error) {
	if err := a.needs(a.hasClaim() && (!a.accelerated() || !a.bound.IsZero()), StepBind); err != nil {
		return Handover{}, err
	}
	claim := a.claimed().Amount
	h := Handover{
		Instance: a.Request.Instance, Host: a.Host, ARQs: slices.Clone(a.Bindings), PortOf: maps.Clone(a.PortOf),
		Flavor: a.Request.Flavor, Ports: a.Request.Ports, Claimed: claim.Wanted(), Before: claim.Before, Generation: claim.Replaced(),
		ProjectID: claim.Project, UserID: claim.User, Image: a.Request.Image,
	}
	if a.Profile != nil {
		h.DeviceProfile = a.Profile.Name
	}
	for _, i := range a.queue.Others(inQueue(a.Candidates)) {
		candidate := a.Candidates[i]
		candidate.summaries = nil // of the whole answer of Placement
		h.Alternates = append(h.Alternates, candidate)
	}
	for _, e := range a.stuck() {
		h.Kept = append(h.Kept, KeptARQ{e.ID, e.ARQ.Hostname, e.Err.Error()})
	}
	for _, from := range a.sources() {
		if !slices.ContainsFunc(h.Profiles, func(p requestspec.Profile) bool { return p.Name == from.profile.Name }) {
			h.Profiles = append(h.Profiles, from.profile)
		}
	}
	a.closeWaiter()
	if err := a.journal.HandOver(ctx); err != nil {
		return Handover{}, err
	}
	return h, nil
}

// UnmarshalJSON refuses unknown fields and a handover that cannot be continued; the
// error matches ErrRequest.
func (h *Handover) UnmarshalJSON(data []byte) error {
	type fields Handover // without this method
	var fresh fields
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&fresh); err != nil {
		return fmt.Errorf("%w: handover: %w", ErrRequest, err)
	}
	*h = Handover(fresh)
	return h.check()
}

func (h Handover) check() error {
	if err := checkUUID("instance", h.Instance); err != nil {
		return err
	}
	if err := checkPorts(h.Ports); err != nil {
		return err
	}
	if h.Image != "" {
		if err := checkUUID("image", h.Image); err != nil {
			return err
		}
	}
	if err := h.checkAllocations(); err != nil {
		return err
	}
	for _, kept := range h.Kept {
		if err := checkUUID("ARQ", kept.ARQ); err != nil {
			return err
		}
	}
	if h.Host == "" {
		return fmt.Errorf("%w: handover of instance %s names no host", ErrRequest, h.Instance)
	}
	added := placement.Subtract(h.Claimed, h.Before)
	ofFlavor := 0
	seen := make(map[string]bool, len(h.ARQs))
	for _, bound := range h.ARQs {
		if err := checkUUID("ARQ", bound.ARQ); err != nil {
			return err
		}
		if err := checkUUID("provider of ARQ "+bound.ARQ, bound.DeviceRP); err != nil {
			return err
		}
		port, ofPort := h.PortOf[bound.ARQ]
		switch {
		case seen[bound.ARQ]:
			return fmt.Errorf("%w: handover of instance %s names ARQ %s twice", ErrRequest, h.Instance, bound.ARQ)
		case bound.Group < 0:
			return fmt.Errorf("%w: handover of instance %s: ARQ %s is of group %d", ErrRequest, h.Instance, bound.ARQ, bound.Group)
		case len(added[bound.DeviceRP]) == 0:
			return fmt.Errorf("%w: handover of instance %s: nothing of provider %s of ARQ %s is claimed", ErrRequest, h.Instance, bound.DeviceRP, bound.ARQ)
		case !ofPort:
			ofFlavor++
		case !slices.ContainsFunc(h.Ports, func(p Port) bool { return p.UUID == port }):
			return fmt.Errorf("%w: handover of instance %s: ARQ %s is for unknown port %s", ErrRequest, h.Instance, bound.ARQ, port)
		}
		seen[bound.ARQ] = true
	}
	if (h.DeviceProfile == "") != (ofFlavor == 0) {
		return fmt.Errorf("%w: handover of instance %s: device profile %q with %s", ErrRequest, h.Instance, h.DeviceProfile, count(ofFlavor, "ARQ"))
	}
	return h.checkProfiles(added)
}

// checkAllocations refuses what Placement cannot have answered, and a claim that lacks what the instance held before.
func (h Handover) checkAllocations() error {
	for _, candidate := range h.Alternates {
		if err := checkUUID("root of an alternate", candidate.Root); err != nil {
			return err
		}
		if len(candidate.Allocations) == 0 {
			return fmt.Errorf("%w: handover of instance %s: the alternate of root %s has no allocations", ErrRequest, h.Instance, candidate.Root)
		}
		if err := h.checkAmounts("the alternate of root "+candidate.Root, candidate.Allocations); err != nil {
			return err
		}
	}
	if err := h.checkAmounts("the claim", h.Claimed); err != nil {
		return err
	}
	if err := h.checkAmounts("the allocation before", h.Before); err != nil {
		return err
	}
	if len(placement.Subtract(h.Before, h.Claimed)) > 0 {
		return fmt.Errorf("%w: handover of instance %s: the claim lacks what the instance held before", ErrRequest, h.Instance)
	}
	return nil
}

func (h Handover) checkAmounts(what string, resources placement.Resources) error {
	for _, provider := range slices.Sorted(maps.Keys(resources)) {
		if err := checkUUID("provider of "+what, provider); err != nil {
			return err
		}
		for _, class := range slices.Sorted(maps.Keys(resources[provider])) {
			if amount := resources[provider][class]; amount < 1 {
				return fmt.Errorf("%w: handover of instance %s: %s has %s:%d of provider %s", ErrRequest, h.Instance, what, class, amount, provider)
			}
		}
	}
	return nil
}

// checkProfiles compares the ARQs, and what was claimed for them, with what flavor and ports ask for.
func (h Handover) checkProfiles(added placement.Resources) error {
	if name, ok := h.Flavor.DeviceProfile(); ok && name != h.DeviceProfile {
		return fmt.Errorf("%w: handover of instance %s: device profile %q, and the flavor names %q", ErrRequest, h.Instance, h.DeviceProfile, name)
	}
	names := map[string]string{} // by port; that of the flavor has none
	if h.DeviceProfile != "" {
		names[""] = h.DeviceProfile
	}
	for _, port := range h.Ports {
		if port.Accelerated() {
			names[port.UUID] = port.DeviceProfile
		}
	}
	needed := placement.Resources{}
	for _, port := range slices.Sorted(maps.Keys(names)) {
		devices, err := h.devicesOf(port, names[port], added)
		if err != nil {
			return fmt.Errorf("%w: handover of instance %s: device profile %s: %w", ErrRequest, h.Instance, names[port], err)
		}
		needed = placement.Add(needed, devices)
	}
	for provider := range placement.Subtract(needed, added) {
		return fmt.Errorf("%w: handover of instance %s: less of provider %s is claimed than its ARQs need", ErrRequest, h.Instance, provider)
	}
	return nil
}

// devicesOf compares the ARQs of a port, or of the flavor, with their device profile, and returns what they need. It is
// not known in a handover of an earlier version without alternates.
func (h Handover) devicesOf(port, name string, added placement.Resources) (needed placement.Resources, err error) {
	var arqs []matching.Unmatched
	providers := map[string][]string{}
	for _, bound := range h.ARQs {
		if h.PortOf[bound.ARQ] != port {
			continue
		}
		arqs = append(arqs, matching.Unmatched{UUID: bound.ARQ, Group: bound.Group, DeviceProfileName: name})
		if id := requestspec.RequesterID(bound.Group); !slices.Contains(providers[id], bound.DeviceRP) {
			providers[id] = append(providers[id], bound.DeviceRP)
		}
	}
	if len(arqs) == 0 {
		return nil, fmt.Errorf("no ARQ of port %s", port)
	}
	i := slices.IndexFunc(h.Profiles, func(p requestspec.Profile) bool { return p.Name == name })
	if i < 0 {
		return nil, nil
	}
	groups, err := requestspec.ParseProfile(name, h.Profiles[i].Groups)
	if err != nil {
		return nil, err
	}
	needed = placement.Resources{}
	for _, group := range groups {
		if len(providers[group.RequesterID]) == 0 { // of memory alone, for which there is no ARQ
			providers[group.RequesterID] = holderOf(group.Resources, added)
			continue
		}
		for _, provider := range providers[group.RequesterID] {
			needed = placement.Add(needed, placement.Resources{provider: group.Resources})
		}
	}
	_, err = matching.Matches(h.Profiles[i], providers, arqs)
	return needed, err
}

// holderOf names a provider of which the resources of a group are claimed, if there is one.
func holderOf(resources map[string]int, claimed placement.Resources) []string {
	for _, provider := range slices.Sorted(maps.Keys(claimed)) {
		group := placement.Resources{provider: resources}
		if len(placement.Subtract(group, claimed)) == 0 {
			return []string{provider}
		}
	}
	return nil
}

// profile returns a device profile; without alternates only its name is known.
func (h Handover) profile(name string) (requestspec.Profile, error) {
	i := slices.IndexFunc(h.Profiles, func(p requestspec.Profile) bool { return p.Name == name })
	switch {
	case i >= 0:
		return h.Profiles[i], nil
	case len(h.Alternates) > 0:
		return requestspec.Profile{}, fmt.Errorf("%w: handover of instance %s has alternates and no device profile %q", ErrRequest, h.Instance, name)
	}
	return requestspec.Profile{Name: name}, nil
}

// Resume continues the attempt of a handover with WaitBound and Compose, or after a
// failure with Reschedule and Claim on an alternate. Its Unwind gives back what the other
// side made, but for ARQs of another instance, which it leaves alone and names as suspects, and for ARQs that Cyborg hides
// from this side's token, as from one of another project than the instance's without the role admin: it names those
// that are not shown as left. An ARQ of the instance that the handover does not name is a suspect, too. The binding timeout starts here, as in
// nova-compute. An empty domain is made from the flavor. After an error, which
// matches ErrRequest, nothing is given back, because the handover is unusable.
func (f *Flow) Resume(ctx context.Context, h Handover, domain []byte) (*Attempt, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	if len(domain) > 0 {
		if _, err := domainxml.Read(domain); err != nil {
			return nil, fmt.Errorf("%w: instance %s: %w", ErrRequest, h.Instance, err)
		}
	}
	journal, err := f.open(ctx, h.Instance)
	if err != nil {
		return nil, err
	}
	a, err := f.resume(h, domain, journal)
	if err == nil {
		err = journal.Record(ctx)
	}
	if err != nil {
		journal.End()
		return nil, err
	}
	return a, nil
}

func (f *Flow) resume(h Handover, domain []byte, journal *ledger.Journal) (*Attempt, error) {
	a := f.newAttempt(Request{
		Instance: h.Instance, Flavor: h.Flavor, Domain: domain, ProjectID: h.ProjectID, UserID: h.UserID,
		running: len(h.Before) > 0, Ports: h.Ports, Image: h.Image,
	}, journal)
	a.record = f.newRecorder(h.Instance, h.Host)
	a.Host, a.Candidates, a.Bindings, a.bound, a.PortProfiles = h.Host, h.Alternates, h.ARQs, time.Now(), map[string]requestspec.Profile{}
	a.before = placement.Allocation{Resources: h.Before, Project: h.ProjectID, User: h.UserID}
	journal.Adopt(&ledger.Effect{Kind: ledger.Claim, ID: h.Instance, Amount: ledger.Replacing(h.Generation, &ledger.Amount{
		Before: h.Before, Added: placement.Subtract(h.Claimed, h.Before), Project: h.ProjectID, User: h.UserID,
	})})
	for _, bound := range h.ARQs {
		a.ARQs = append(a.ARQs, cyborgclient.ARQ{UUID: bound.ARQ, DeviceProfileGroupID: bound.Group, DeviceProfileName: h.DeviceProfile})
	}
	for _, kept := range h.Kept {
		e := journal.Adopt(&ledger.Effect{Kind: ledger.ARQ, ID: kept.ARQ, ARQ: &cyborgclient.ARQ{UUID: kept.ARQ, Hostname: kept.Host}})
		journal.Settle(e, ledger.Left, errors.New(kept.Reason))
	}
	maps.Copy(a.PortOf, h.PortOf)
	ports := a.portARQs()
	for n, arq := range a.ARQs {
		if port, ofPort := ports[arq.UUID]; ofPort {
			a.ARQs[n].DeviceProfileName = port.DeviceProfile
		}
	}
	if err := a.resumeProfiles(h); err != nil {
		return nil, err
	}
	a.adoptHanded()
	if len(h.ARQs) > 0 {
		journal.Adopt(&ledger.Effect{Kind: ledger.Binding, ID: h.Instance})
	}
	return a, nil
}

// resumeProfiles reads the device profiles of the handover, and makes of them the request
// groups, by which the ARQs are matched on an alternate.
func (a *Attempt) resumeProfiles(h Handover) error {
	if h.DeviceProfile != "" {
		profile, err := h.profile(h.DeviceProfile)
		if err != nil {
			return err
		}
		a.Profile = &profile
	}
	for _, port := range a.portARQs() {
		profile, err := h.profile(port.DeviceProfile)
		if err != nil {
			return err
		}
		a.PortProfiles[port.UUID] = profile
	}
	if len(h.Alternates) == 0 {
		return nil
	}
	if err := a.buildSpec(); err != nil {
		return err
	}
	a.Spec.Numeric = slices.ContainsFunc(h.Alternates, func(c Candidate) bool { return c.Mappings == nil })
	return nil
}
