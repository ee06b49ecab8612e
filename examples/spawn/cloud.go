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
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// cloud is an embedded or a real cloud, with a flow against it.
type cloud struct {
	title    string
	flow     *spawn.Flow
	cyborg   *cyborgclient.Client // of the flow
	instance string               // to use when none was given

	sim *simcloud.Cloud // nil: a real cloud

	mu     sync.Mutex
	events []call // forwarded by Nova
}

func openCloud(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	if opts.OSCloud != "" {
		return openReal(ctx, opts, config)
	}
	return openEmbedded(ctx, opts, config)
}

// openEmbedded starts a simulated cloud inside the process. The instance's UUID depends on
// the seed, so that the same command prints the same identifiers.
func openEmbedded(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	model := simcloud.DefaultModel()
	if opts.Sysfs != "" {
		model = simcloud.Model{Hosts: []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Dir: opts.Sysfs}}}}
	}
	model.Seed = opts.Seed
	simulated, err := simcloud.New(ctx, model)
	if err != nil {
		return nil, badInput("embedded cloud", err)
	}
	c := &cloud{sim: simulated, title: "Embedded cloud, hosts " + strings.Join(simulated.HostNames(), ", ")}
	c.instance = uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Appendf(nil, "instance-%d", opts.Seed)).String()
	provider, err := c.sim.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	events := externalevent.NewRegistry()
	c.sim.HandleEvents(c.record(events.Handler()))
	return c, c.connect(config, provider, gophercloud.EndpointOpts{}, c.sim.ServiceToken, events)
}

// openReal logs in to a cloud of clouds.yaml. Nova sends its events to its own agents and
// not to this program, so the flow polls.
func openReal(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	c := &cloud{title: "Cloud " + opts.OSCloud}
	provider, endpoint, err := authenticate(ctx, opts.OSCloud)
	if err != nil {
		return nil, badInput("--os-cloud "+opts.OSCloud, err)
	}
	var token func(context.Context) (string, error)
	if opts.ServiceCloud != "" {
		service, _, err := authenticate(ctx, opts.ServiceCloud)
		if err != nil {
			return nil, badInput("--service-cloud "+opts.ServiceCloud, err)
		}
		token = func(context.Context) (string, error) { return service.Token(), nil }
	}
	if err := c.connect(config, provider, endpoint, token, nil); err != nil {
		return nil, badInput("--os-cloud "+opts.OSCloud, err)
	}
	return c, nil
}

func authenticate(ctx context.Context, cloud string) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(cloud))
	if err != nil {
		return nil, endpoint, err
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	return provider, endpoint, err
}

// connect makes the clients and the flow. Without a service token Cyborg refuses to bind.
func (c *cloud) connect(config spawn.Config, provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts,
	serviceToken func(context.Context) (string, error), events *externalevent.Registry,
) (err error) {
	clientOpts := []cyborgclient.Option{cyborgclient.WithEndpointOpts(endpoint)}
	if serviceToken != nil {
		clientOpts = append(clientOpts, cyborgclient.WithServiceToken(serviceToken))
	}
	if c.cyborg, err = cyborgclient.New(provider, clientOpts...); err != nil {
		return err
	}
	placement, err := openstack.NewPlacementV1(provider, endpoint)
	if err != nil {
		return err
	}
	c.flow, err = spawn.New(config, c.cyborg, placement, events)
	return err
}

// record records the events that Nova forwards to the flow.
func (c *cloud) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		next.ServeHTTP(w, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.events = append(c.events, call{
			From: "Nova", To: "spawn", What: "event accelerator-request-bound", Status: http.StatusOK,
			Started: started, Duration: time.Since(started),
		})
	})
}

// flavor returns the model's flavor that names the profile, or makes one.
func (c *cloud) flavor(profile string) requestspec.Flavor {
	if c.sim != nil {
		for _, flavor := range c.sim.Model().Flavors {
			if flavor.ExtraSpecs[requestspec.DeviceProfileKey] == profile {
				return requestspec.Flavor(flavor)
			}
		}
	}
	return requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}
}

// calls returns the requests of the flow; of an embedded cloud also those between its
// services.
func (c *cloud) calls(trace []spawn.StepTrace) []call {
	if c.sim == nil {
		return callsOf(trace)
	}
	c.mu.Lock()
	calls := slices.Clone(c.events)
	c.mu.Unlock()
	for _, r := range c.sim.Requests() {
		calls = append(calls, callOf(r))
	}
	slices.SortStableFunc(calls, func(a, b call) int { return a.Started.Compare(b.Started) })
	return calls
}

// define registers the started guest with an embedded cloud and checks for leaks: the ARQs
// of a guest must be Bound and in its domain; without a guest there must be no resources.
func (c *cloud) define(result *spawn.Result) error {
	if c.sim == nil {
		return nil
	}
	if result != nil {
		guest := sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}
		if err := c.sim.DefineGuest(guest); err != nil {
			return err
		}
	}
	var leaks []error
	for _, leak := range c.sim.Leaks() {
		leaks = append(leaks, fmt.Errorf("%w: %s", errLeak, leak.Text))
	}
	return errors.Join(leaks...)
}

// hint lists what the drivers left out and why each host is not a candidate.
func (c *cloud) hint(none *spawn.NoCandidatesError) string {
	if c.sim == nil {
		return "list the providers with openstack resource provider list"
	}
	var lines []string
	for _, report := range c.sim.Findings() {
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
	why, err := c.sim.Placement.Explain(none.Query)
	if err != nil {
		return strings.Join(append(lines, err.Error()), "\n")
	}
	return strings.TrimSpace(strings.Join(append(lines, why.String()), "\n"))
}

func (c *cloud) close() error {
	if c.sim == nil {
		return nil
	}
	return c.sim.Close()
}
