package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// embedded is a simulated cloud inside the process.
type embedded struct {
	cloud  *simcloud.Cloud
	model  simcloud.Model
	seed   uint64
	mu     sync.Mutex
	events []call // forwarded by Nova
}

func newEmbedded(ctx context.Context, opts options) (*embedded, error) {
	model := simcloud.DefaultModel()
	if opts.Sysfs != "" {
		model = simcloud.Model{Hosts: []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Dir: opts.Sysfs}}}}
	}
	model.Seed = opts.Seed
	sim, err := simcloud.New(ctx, model)
	if err != nil {
		return nil, fmt.Errorf("%w: embedded cloud: %w", errUsage, err)
	}
	return &embedded{cloud: sim, model: sim.Model(), seed: opts.Seed}, nil
}

func (e *embedded) title() string {
	return "embedded cloud, hosts " + strings.Join(e.cloud.HostNames(), ", ")
}

func (e *embedded) flow(ctx context.Context, config spawn.Config) (*spawn.Flow, *cyborgclient.Client, error) {
	provider, err := e.cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, nil, err
	}
	cyborg, err := cyborgclient.New(provider, cyborgclient.WithServiceToken(e.cloud.ServiceToken))
	if err != nil {
		return nil, nil, err
	}
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, nil, err
	}
	events := externalevent.NewRegistry()
	e.cloud.HandleEvents(e.record(events.Handler()))
	flow, err := spawn.New(config, cyborg, placement, events)
	return flow, cyborg, err
}

// record records the events that Nova forwards to the flow.
func (e *embedded) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		next.ServeHTTP(w, r)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.events = append(e.events, call{
			From: "Nova", To: "spawn", What: "event accelerator-request-bound", Status: http.StatusOK,
			Started: started, Duration: time.Since(started),
		})
	})
}

// instance derives the UUID from the seed, so that the same command prints the same
// identifiers.
func (e *embedded) instance() string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Appendf(nil, "instance-%d", e.seed)).String()
}

// flavor returns the model's flavor that names the profile, or makes one.
func (e *embedded) flavor(profile string) requestspec.Flavor {
	for _, flavor := range e.model.Flavors {
		if flavor.ExtraSpecs[requestspec.DeviceProfileKey] == profile {
			return requestspec.Flavor(flavor)
		}
	}
	return plainFlavor(profile)
}

func plainFlavor(profile string) requestspec.Flavor {
	return requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}
}

func (e *embedded) running() bool { return false }

// conversation returns the cloud's record, which includes the requests between the
// services.
func (e *embedded) conversation([]spawn.StepTrace) []call {
	var calls []call
	for _, r := range e.cloud.Requests() {
		calls = append(calls, call{
			From: sender(r.From), To: services[r.Service], What: r.Method + " " + shortPath(r.Path), Status: r.Status,
			Started: r.Started, Duration: r.Duration,
		})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	calls = append(calls, e.events...)
	slices.SortStableFunc(calls, func(a, b call) int { return a.Started.Compare(b.Started) })
	return calls
}

// define registers the guest and checks for leaks: the ARQs of a guest must be Bound
// and in its domain; without a guest there must be no resources.
func (e *embedded) define(_ context.Context, result *spawn.Result) error {
	if result != nil {
		guest := sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}
		if err := e.cloud.DefineGuest(guest); err != nil {
			return err
		}
	}
	var leaks []error
	for _, leak := range e.cloud.Leaks() {
		leaks = append(leaks, fmt.Errorf("%w: %s", errLeak, leak.Text))
	}
	return errors.Join(leaks...)
}

// hint lists what the drivers left out and why each host is not a candidate.
func (e *embedded) hint(none *spawn.NoCandidatesError) string {
	var lines []string
	for _, report := range e.cloud.Findings() {
		for _, left := range report.LeftOut {
			lines = append(lines, fmt.Sprintf("host %s: %s left out: %s", report.Host, left.Address, left.Reason))
		}
		for _, problem := range report.Problems {
			lines = append(lines, fmt.Sprintf("host %s: %v", report.Host, problem))
		}
		if report.Err != nil {
			lines = append(lines, fmt.Sprintf("host %s: driver %s: %v", report.Host, report.Driver, report.Err))
		}
	}
	why, err := e.cloud.Placement.Explain(none.Query)
	if err != nil {
		return strings.Join(append(lines, err.Error()), "\n")
	}
	return strings.TrimSpace(strings.Join(append(lines, why.String()), "\n"))
}

func (e *embedded) close() error { return e.cloud.Close() }
