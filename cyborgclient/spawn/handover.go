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
	"github.com/gocyborg/gocyborg/requestspec"
)

// handoverVersion is the version of the format of a [Handover].
const handoverVersion = 2

// Handover passes an attempt, as JSON, from the process that schedules and binds (Nova's conductor) to the process
// that waits and starts the guest (nova-compute). It contains the plan with which the second process continues, and
// the effects that this process takes over and removes after a failure.
type Handover struct {
	// Version is the version of the format. A handover with another version, from another release, is rejected.
	Version  int    `json:"version"`
	Instance string `json:"instance"`
	// Host is the name of the compute node.
	Host string `json:"host"`

	// Flavor, Image and Ports are copied from the request. Flavor is the size of the domain if none is given.
	Flavor requestspec.Flavor `json:"flavor"`
	Image  string             `json:"image,omitempty"`
	Ports  []Port             `json:"ports,omitempty"`
	// Profiles are the device profiles of flavor and ports, each once.
	Profiles []requestspec.Profile `json:"profiles,omitempty"`
	// Alternates are the candidates on hosts that may still be tried, in order, like the alternates that Nova's
	// conductor passes to nova-compute.
	Alternates []Candidate `json:"alternates,omitempty"`

	// Chosen is the claimed candidate. Before is what the instance held before the claim: provider -> resource class
	// -> amount. Generation is the consumer generation after the claim.
	Chosen     Candidate                 `json:"chosen"`
	Before     map[string]map[string]int `json:"before,omitempty"`
	Generation *int                      `json:"generation,omitempty"`
	// ProjectID and UserID own the allocation.
	ProjectID string `json:"project_id"`
	UserID    string `json:"user_id"`
	// ARQs are the bound ARQs.
	ARQs []HandedARQ `json:"arqs"`
	// Kept are ARQs on hosts that were tried before, which Cyborg keeps until the agents of those hosts respond: see
	// [Result.Leftovers].
	Kept []KeptARQ `json:"kept,omitempty"`
}

// HandedARQ is a bound ARQ in a [Handover].
type HandedARQ struct {
	ARQ string `json:"arq"`
	// Group is the index of its group in its device profile.
	Group int `json:"group"`
	// Port is the UUID of its port, or empty for an ARQ of the flavor.
	Port string `json:"port,omitempty"`
}

// KeptARQ is an ARQ on another host in a [Handover].
type KeptARQ struct {
	ARQ    string `json:"arq"`
	Host   string `json:"host"`
	Reason string `json:"reason"` // why Cyborg did not delete it
}

// Handover ends the attempt on this side after Bind and unregisters its events. Unwind still works, in case the other
// side cannot be reached. The handover is recorded in the journal before it is returned: see [Flow.Recover]. The
// error matches ErrOrder before Bind.
func (a *Attempt) Handover(ctx context.Context) (Handover, error) {
	isClaimed := a.Chosen != nil && a.hasClaim()
	if err := a.needs(isClaimed && (!a.accelerated() || !a.bound.IsZero()), StepBind); err != nil {
		return Handover{}, err
	}
	claim := a.claimed().Amount
	h := Handover{
		Version: handoverVersion, Instance: a.Request.Instance, Host: a.Host, Flavor: a.Request.Flavor, Image: a.Request.Image, Ports: a.Request.Ports,
		Chosen: Candidate{Root: a.Chosen.Root, Host: a.Host, Allocations: claim.Added, Mappings: a.Chosen.Mappings},
		Before: claim.Before, Generation: claim.Generation, ProjectID: claim.Project, UserID: claim.User,
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
		if _, isKnown := h.profile(from.profile.Name); !isKnown {
			h.Profiles = append(h.Profiles, from.profile)
		}
	}
	for _, bound := range a.Bindings {
		h.ARQs = append(h.ARQs, HandedARQ{ARQ: bound.ARQ, Group: bound.Group, Port: a.PortOf[bound.ARQ]})
	}
	a.closeWaiter()
	if err := a.journal.HandOver(ctx); err != nil {
		return Handover{}, err
	}
	return h, nil
}

// profile returns the device profile with a name.
func (h Handover) profile(name string) (profile requestspec.Profile, isKnown bool) {
	i := slices.IndexFunc(h.Profiles, func(p requestspec.Profile) bool { return p.Name == name })
	if i < 0 {
		return profile, false
	}
	return h.Profiles[i], true
}

// UnmarshalJSON rejects another version, unknown fields and values that no attempt writes; the error matches
// ErrRequest.
func (h *Handover) UnmarshalJSON(data []byte) error {
	var format struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return fmt.Errorf("%w: handover: %w", ErrRequest, err)
	}
	if err := checkVersion(format.Version); err != nil {
		return err
	}
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

func checkVersion(version int) error {
	if version != handoverVersion {
		return fmt.Errorf("%w: handover of version %d, want %d: both processes need the same release", ErrRequest, version, handoverVersion)
	}
	return nil
}

// check rejects values that no attempt writes. It does not check whether the claim and the ARQs belong to another
// instance: they are compared with Placement and Cyborg before a guest starts with them, and before they are removed.
func (h Handover) check() error {
	if err := checkVersion(h.Version); err != nil {
		return err
	}
	if h.Host == "" {
		return fmt.Errorf("%w: handover of instance %s names no host", ErrRequest, h.Instance)
	}
	uuids := [][2]string{{"instance", h.Instance}}
	if h.Image != "" {
		uuids = append(uuids, [2]string{"image", h.Image})
	}
	for _, handed := range h.ARQs {
		uuids = append(uuids, [2]string{"ARQ", handed.ARQ})
	}
	for _, kept := range h.Kept {
		uuids = append(uuids, [2]string{"ARQ that was kept", kept.ARQ})
	}
	for _, u := range uuids {
		if err := checkUUID(u[0], u[1]); err != nil {
			return err
		}
	}
	if err := checkPorts(h.Ports); err != nil {
		return err
	}
	for _, candidate := range append([]Candidate{h.Chosen}, h.Alternates...) {
		if err := checkUUID("root of a candidate", candidate.Root); err != nil {
			return err
		}
		if len(candidate.Allocations) == 0 {
			return fmt.Errorf("%w: handover of instance %s: the candidate of root %s has no allocations", ErrRequest, h.Instance, candidate.Root)
		}
		if err := h.checkAmounts(candidate.Allocations); err != nil {
			return err
		}
	}
	return h.checkAmounts(h.Before)
}

func (h Handover) checkAmounts(resources placement.Resources) error {
	for _, provider := range slices.Sorted(maps.Keys(resources)) {
		if err := checkUUID("provider", provider); err != nil {
			return err
		}
		for class, amount := range resources[provider] {
			if amount < 1 {
				return fmt.Errorf("%w: handover of instance %s: %s:%d of provider %s", ErrRequest, h.Instance, class, amount, provider)
			}
		}
	}
	return nil
}

// Resume continues the attempt of a handover with WaitBound and Compose, or after a failure with Reschedule and Claim
// on an alternate. An empty domain is created from the flavor. The binding timeout starts here, as in nova-compute.
//
// Unwind of the returned attempt releases what the other side created, with these exceptions. ARQs of another
// instance are not deleted, and are listed as suspects. ARQs that Cyborg may hide from this side's token, such as a
// token of another project than the instance's without the role admin, are listed as leftovers if they are not shown.
// An ARQ of the instance that is not part of the handover is a suspect, too.
//
// Resume rejects a handover with more or fewer ARQs than its device profiles request. Its error matches ErrRequest if
// the handover is unusable; nothing is removed then.
func (f *Flow) Resume(ctx context.Context, h Handover, domain []byte) (*Attempt, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	if len(domain) > 0 {
		if _, err := domainxml.Read(domain); err != nil {
			return nil, fmt.Errorf("%w: instance %s: %w", ErrRequest, h.Instance, err)
		}
	}
	a := f.newAttempt(Request{
		Instance: h.Instance, Flavor: h.Flavor, Domain: domain, ProjectID: h.ProjectID, UserID: h.UserID,
		running: len(h.Before) > 0, Ports: h.Ports, Image: h.Image,
	}, nil)
	if err := a.resumePlan(h); err != nil {
		return nil, fmt.Errorf("%w: handover of instance %s: %w", ErrRequest, h.Instance, err)
	}
	journal, err := f.open(ctx, h.Instance)
	if err != nil {
		return nil, err
	}
	a.journal = journal
	a.resumeEffects(h)
	if err := journal.Record(ctx); err != nil {
		journal.End()
		return nil, err
	}
	return a, nil
}

// resumePlan takes over the plan of a handover. The ARQs must match the plan.
func (a *Attempt) resumePlan(h Handover) error {
	a.record = a.flow.newRecorder(h.Instance, h.Host)
	a.Host, a.Chosen, a.Candidates, a.bound = h.Host, &h.Chosen, h.Alternates, time.Now()
	a.before = placement.Allocation{Resources: h.Before, Project: h.ProjectID, User: h.UserID}
	if name, ok := h.Flavor.DeviceProfile(); ok {
		profile, isKnown := h.profile(name)
		if !isKnown {
			return fmt.Errorf("device profile %q is missing", name)
		}
		a.Profile = &profile
	}
	for _, port := range h.Ports {
		if !port.Accelerated() {
			continue
		}
		profile, isKnown := h.profile(port.DeviceProfile)
		if !isKnown {
			return fmt.Errorf("device profile %q of port %s is missing", port.DeviceProfile, port.UUID)
		}
		a.PortProfiles[port.UUID] = profile
	}
	for _, handed := range h.ARQs {
		arq := cyborgclient.ARQ{UUID: handed.ARQ, DeviceProfileGroupID: handed.Group}
		if arq.DeviceProfileName, _ = h.Flavor.DeviceProfile(); handed.Port != "" {
			arq.DeviceProfileName, a.PortOf[arq.UUID] = a.PortProfiles[handed.Port].Name, handed.Port
		}
		a.ARQs = append(a.ARQs, arq)
	}
	if err := a.match(); err != nil {
		return err
	}
	if len(a.Bindings) != len(a.ARQs) {
		return fmt.Errorf("flavor and ports ask for %d of %s", len(a.Bindings), count(len(a.ARQs), "ARQ"))
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

// resumeEffects takes over the effects of a handover. The ARQs are verified with Cyborg before they are deleted.
func (a *Attempt) resumeEffects(h Handover) {
	a.journal.Adopt(&ledger.Effect{Kind: ledger.Claim, ID: h.Instance, Amount: &ledger.Amount{
		Before: h.Before, Added: h.Chosen.Allocations, Generation: h.Generation, Project: h.ProjectID, User: h.UserID,
	}})
	for _, kept := range h.Kept {
		e := a.journal.Adopt(&ledger.Effect{Kind: ledger.ARQ, ID: kept.ARQ, ARQ: &cyborgclient.ARQ{UUID: kept.ARQ, Hostname: kept.Host}, Guard: ledger.Handed})
		a.journal.Settle(e, ledger.Left, errors.New(kept.Reason))
	}
	a.adoptHanded()
	if len(a.ARQs) > 0 {
		a.journal.Adopt(&ledger.Effect{Kind: ledger.Binding, ID: h.Instance})
	}
}
