package spawn

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Request describes the instance to spawn and its devices.
type Request struct {
	// Instance is the UUID of the instance, the consumer of the allocation.
	Instance string
	Flavor   requestspec.Flavor
	// Image is the UUID of the instance's image. It is sent to Cyborg with the ARQs of a device profile that requests
	// FPGAs (the Train specification): the properties of the image name the bitstream or function for regions whose
	// profile does not. The image itself is not a bitstream. No released Cyborg reads it.
	Image string
	// Domain is the libvirt domain into which the devices are merged. Empty means a
	// minimal domain of the flavor's size, whose name is "instance-" and the UUID.
	Domain []byte
	// ProjectID and UserID own the allocation, and ProjectID the ARQs. They default to the project and user of the
	// token, or, with [Flow.AddDevices] and the role admin, to the project of the allocation. A project other than
	// the token's requires the role admin.
	ProjectID, UserID string
	// Options shape the request to Placement.
	Options requestspec.Options
	// Order, if set, reorders or filters the candidates before one is chosen, as Nova's weighers do. The first
	// candidate of each host is tried first; another candidate of the host is tried only if a device was taken in the
	// meantime. A candidate without allocations is an ErrRequest. Order is called again with new candidates when all
	// were refused.
	Order func([]Candidate) []Candidate
	// Ports are the instance's network ports. Those with a device profile get a
	// device of Cyborg's.
	Ports []Port
	// Hooks are the caller's steps of the build.
	Hooks Hooks

	running bool // the instance exists: see AddDevices
}

// Candidate is one allocation candidate of Placement. The candidates of one answer share maps
// and lists, which must not be changed.
type Candidate struct {
	// Root is the provider UUID of the compute node.
	Root string `json:"root"`
	// Host is the name of the compute node. Placement's answer does not have it: it is empty until a candidate of the
	// host was chosen.
	Host string `json:"host,omitempty"`
	// Allocations is provider UUID -> resource class -> amount.
	Allocations map[string]map[string]int `json:"allocations"`
	// Mappings is request group -> provider UUIDs.
	Mappings map[string][]string `json:"mappings,omitempty"`
	// Reason explains the rank of the candidate; set by [OrderBy].
	Reason string `json:"reason,omitempty"`

	summaries *summaries // of the same answer
}

// Result describes a spawned instance and its devices.
type Result struct {
	Instance string
	// Host is the name of the compute node.
	Host string
	// Flavor is the flavor of the request. A Rocky flavor is converted into one with a device profile.
	Flavor requestspec.Flavor
	// ARQs are all Bound, in the order of the device profile's groups.
	ARQs []cyborgclient.ARQ
	// Devices are in Domain, one for each ARQ that is not in Skipped.
	Devices []domainxml.Hostdev
	// Skipped are the ARQs whose handle has no hardware (TEST_PCI).
	Skipped []domainxml.Handle
	// Ports are the ports that got a device, with their new binding profiles. Their
	// ARQs are in ARQs; their devices are neither in Devices nor in Skipped.
	Ports []Port
	// Domain is the domain XML with the devices.
	Domain []byte
	// Suspects are ARQs that may have been created on other hosts by requests whose responses were lost; see
	// [Leftover.Certain].
	Suspects []Leftover
	// Leftovers are the ARQs on other hosts that Cyborg keeps until the agents of those hosts respond. Their devices
	// stay in use: Placement offers them again, but Cyborg does not bind them. Reconcile of the host frees them. ARQs
	// for which an [MdevRemover] could not remove the definition of the mediated device are included.
	Leftovers []Leftover
	Trace     []StepTrace
}

// Attempt is one run of the ten steps for one instance. Call its methods in order from one goroutine. The exported
// fields hold the results of the steps; an agent that performs a step itself sets them. Instead of calling
// CreateARQs, the agent may set ARQs that another client created: one POST for each device profile, unbound, in a
// project that the token sees. After a failure Unwind deletes them, except ARQs that belong to another instance. The
// attempt ends when Compose succeeds (with a hypervisor, when StartGuest succeeds) or Unwind is called.
type Attempt struct {
	Request    Request
	Profile    *requestspec.Profile    // step 1; nil without a device profile
	Spec       requestspec.RequestSpec // step 2
	Candidates []Candidate             // step 3, in the order of trial
	Chosen     *Candidate              // step 4; step 5 may move on to another host
	Host       string                  // step 4
	ARQs       []cyborgclient.ARQ      // step 6, as Cyborg last showed them
	Bindings   []matching.Match        // step 7
	Devices    []domainxml.Hostdev     // step 10
	Skipped    []domainxml.Handle      // step 10
	Ports      []Port                  // step 10, those with a device
	Domain     []byte                  // step 10

	// PortProfiles are the device profiles of ports by port (step 1), PortOf is the
	// port of an ARQ (step 6). An ARQ of the flavor has none.
	PortProfiles map[string]requestspec.Profile
	PortOf       map[string]string

	flow    *Flow
	record  *recorder
	journal *ledger.Journal
	queue   *choose.Queue
	avoided []string             // providers of hosts that must not be chosen
	down    []string             // names of such hosts
	before  placement.Allocation // of the instance before the claim, with [Flow.AddDevices]
	waiter  *externalevent.Waiter
	bound   time.Time             // when the bind request ended
	release func(*ledger.Journal) // unlocks the instance; does nothing if the attempt is part of an operation
	tree    hostTree              // of Host
}

// Begin returns an attempt at its first step. It waits while another operation on the instance is running. The error
// matches ErrRequest, or ErrBusy if the context ends first or belongs to a hook or hypervisor call of that operation.
func (f *Flow) Begin(ctx context.Context, request Request) (*Attempt, error) {
	request, err := f.checkRequest(request)
	if err != nil {
		return nil, err
	}
	journal, err := f.open(ctx, request.Instance)
	if err != nil {
		return nil, err
	}
	return f.newAttempt(request, journal), nil
}

func (f *Flow) newAttempt(request Request, journal *ledger.Journal) *Attempt {
	return &Attempt{
		Request: request, PortProfiles: map[string]requestspec.Profile{}, PortOf: map[string]string{}, flow: f, journal: journal,
		record: f.newRecorder(request.Instance, ""), queue: choose.New(f.config.MaxAttempts), release: (*ledger.Journal).End,
	}
}

// checkRequest returns a valid request with project and user.
func (f *Flow) checkRequest(request Request) (Request, error) {
	if err := checkUUID("instance", request.Instance); err != nil {
		return request, err
	}
	if request.Image != "" {
		if err := checkUUID("image", request.Image); err != nil {
			return request, err
		}
	}
	if err := checkPorts(request.Ports); err != nil {
		return request, err
	}
	owner := f.cyborg.owner()
	request.ProjectID, request.UserID = cmp.Or(request.ProjectID, owner.ProjectID), cmp.Or(request.UserID, owner.UserID)
	switch {
	case request.ProjectID == "" || request.UserID == "":
		return request, fmt.Errorf("%w: neither request nor token names a project and a user", ErrRequest)
	case owner.ProjectID != "" && request.ProjectID != owner.ProjectID && !owner.IsAdmin():
		return request, fmt.Errorf("%w: project %s is not the token's project %s, and the token has no role admin", ErrRequest, request.ProjectID, owner.ProjectID)
	}
	if len(request.Domain) > 0 {
		if _, err := domainxml.Read(request.Domain); err != nil { // refuse before anything is claimed
			return request, fmt.Errorf("%w: %w", ErrRequest, err)
		}
	}
	return request, nil
}

// Trace returns the record so far.
func (a *Attempt) Trace() []StepTrace { return a.record.trace() }

// Result returns the result so far; it is complete after Compose.
func (a *Attempt) Result() *Result {
	result := &Result{
		Instance: a.Request.Instance, Host: a.Host, Flavor: a.Request.Flavor, ARQs: a.ARQs, Devices: a.Devices, Skipped: a.Skipped,
		Ports: a.Ports, Domain: a.Domain, Trace: a.Trace(),
	}
	result.Leftovers, result.Suspects = remaining(a.journal)
	return result
}

type namedStep struct {
	name Step
	run  func(context.Context) error
}

func (a *Attempt) steps() []namedStep {
	return []namedStep{
		{StepProfile, a.ReadProfile}, {StepRequest, a.BuildRequest}, {StepCandidates, a.FindCandidates},
		{StepSelect, a.Select}, {StepClaim, a.Claim}, {StepCreate, a.CreateARQs}, {StepMatch, a.Match},
		{StepBind, a.Bind}, {StepHost, a.ClaimHost}, {StepWait, a.WaitBound}, {StepPrepare, a.PrepareGuest},
		{StepCompose, a.Compose}, {StepStart, a.StartGuest},
	}
}

// deviceStep runs a step that only instances with accelerators need and that requires another step before it.
func (a *Attempt) deviceStep(ctx context.Context, name Step, ready bool, after Step, work func(context.Context) (decision string, err error)) error {
	return a.record.step(ctx, name, func(ctx context.Context) (string, error) {
		if !a.accelerated() {
			return "no device profile", nil
		}
		if err := a.needs(ready, after); err != nil {
			return "", err
		}
		return work(ctx)
	})
}

// fail unwinds and returns the error of the attempt.
func (a *Attempt) fail(ctx context.Context, step Step, cause error) error {
	a.record.failed(step, cause)
	_, leftovers := a.Unwind(ctx)
	return &Error{
		Instance: a.Request.Instance, Step: step, Err: cause, Hosts: a.record.tried,
		Undone: namesOf(a.journal.Removed()), Leftovers: leftovers, Trace: a.Trace(),
	}
}

// end ends the attempt successfully: its effects now belong to the instance.
func (a *Attempt) end(ctx context.Context) error {
	err := a.journal.Commit(ctx)
	if err == nil {
		a.release(a.journal)
	}
	return err
}

// needs returns an ErrOrder unless the given step was done.
func (a *Attempt) needs(done bool, step Step) error {
	if done {
		return nil
	}
	return fmt.Errorf("%w: %s has not been done", ErrOrder, step)
}

func uuidsOf(arqs []cyborgclient.ARQ) []string {
	uuids := make([]string, len(arqs))
	for i, arq := range arqs {
		uuids[i] = arq.UUID
	}
	return uuids
}

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// checkUUID rejects anything but lower case with dashes, because Cyborg and Placement compare UUIDs byte by byte.
func checkUUID(what, uuid string) error {
	if !uuidPattern.MatchString(uuid) {
		return fmt.Errorf("%w: %s %q is not a lower-case UUID with dashes", ErrRequest, what, uuid)
	}
	return nil
}
