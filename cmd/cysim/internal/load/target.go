package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The embedded cloud.
const (
	embedded       = "embedded"
	defaultHosts   = 8
	defaultDevices = 8
	maxHosts       = 100_000
	maxDevices     = 240 // of simcloud.ScaleModel
)

// target is the cloud under load.
type target struct {
	flow  *spawn.Flow
	cloud *simcloud.Cloud // nil for a real cloud
	// control registers the instances that are kept with cysim serve, if the real cloud is one; it is nil otherwise.
	control *sim.Control
	hosts   sync.Map // names of the hosts that were used
	left    sync.Map // possible leaks of failed spawns and deletions: their texts, by kind and ID
}

// failed notes the hosts and the leftovers of a failed spawn or deletion.
func (t *target) failed(err error) {
	var failure *spawn.Error
	if !errors.As(err, &failure) {
		return
	}
	for _, host := range failure.Hosts {
		t.hosts.Store(host.Host, true)
	}
	suspects := t.flow.Suspects()
	for _, l := range failure.Leftovers {
		if !slices.ContainsFunc(suspects, func(s spawn.Leftover) bool { return keyOf(s) == keyOf(l) }) {
			t.left.Store(keyOf(l), l.String())
		}
	}
}

func keyOf(l spawn.Leftover) [2]string { return [2]string{string(l.Kind), l.ID} }

func (c *Command) target(ctx context.Context) (*target, error) {
	if c.Cloud == embedded {
		return c.embeddedTarget(ctx)
	}
	service := cmp.Or(c.ServiceCloud, c.Cloud)
	flow, err := spawn.NewFromCloud(ctx, c.Cloud, spawn.WithServiceCloud(service)) // it polls: Nova's events do not come here
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("--cloud %s: %w", c.Cloud, err))
	}
	t := &target{flow: flow}
	if server := strings.TrimSuffix(os.Getenv("CYSIM_URL"), "/"); c.Keep && server != "" && strings.HasPrefix(flow.Cyborg().Service().Endpoint, server+"/") {
		t.control = &sim.Control{URL: server}
	}
	return t, nil
}

func (c *Command) embeddedTarget(ctx context.Context) (*target, error) {
	cloud, err := simcloud.New(ctx, simcloud.ScaleModel(c.Hosts, c.Devices))
	if err != nil {
		return nil, err
	}
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := cloud.ProviderClient(ctx, "nova")
	if err != nil {
		return nil, err
	}
	events := externalevent.NewRegistry()
	cloud.HandleEvents(events.Handler())
	// No other client uses the project, so the flow searches for the ARQs of an interrupted create.
	config := spawn.Config{ExclusiveProject: true}
	flow, err := spawn.NewFromProvider(provider, spawn.WithServiceProvider(service), spawn.WithConfig(config), spawn.WithEvents(events))
	if err != nil {
		return nil, err
	}
	return &target{flow: flow, cloud: cloud}, nil
}

// define defines the guest where a leak check looks for it.
func (t *target) define(ctx context.Context, result *spawn.Result) error {
	t.hosts.Store(result.Host, true)
	guest := sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}
	switch {
	case t.cloud != nil:
		return t.cloud.DefineGuest(guest)
	case t.control != nil:
		return t.control.DefineGuest(ctx, guest)
	}
	return nil
}

func (t *target) remove(instance string) {
	if t.cloud != nil {
		t.cloud.RemoveGuest(instance)
	}
}

// leaks names what deleted instances still hold: all leaks of the embedded cloud, of a real
// one the requests and allocations of just these instances.
func (t *target) leaks(ctx context.Context, gone map[string]bool) ([]string, error) {
	var texts []string
	if t.cloud != nil {
		for _, leak := range t.cloud.Leaks() {
			texts = append(texts, leak.Text)
		}
		return texts, nil
	}
	opts := spawn.ReconcileOpts{
		Living: func(_ context.Context, instance string) (bool, error) { return !gone[instance], nil },
	}
	t.hosts.Range(func(host, _ any) bool {
		opts.Hosts = append(opts.Hosts, host.(string))
		return true
	})
	var err error
	if len(opts.Hosts) > 0 {
		var orphans []spawn.Leftover
		orphans, err = t.flow.Reconcile(ctx, opts)
		for _, o := range orphans {
			if gone[o.Instance] || gone[o.ID] {
				t.left.Store(keyOf(o), fmt.Sprintf("%s %s: %s", o.Kind, o.ID, o.Reason))
			}
		}
	}
	t.left.Range(func(_, text any) bool {
		texts = append(texts, text.(string))
		return true
	})
	slices.Sort(texts)
	return texts, err
}

// mayBeLeft returns what the check of a real cloud did not find, and may still appear.
func (t *target) mayBeLeft() (texts []string) {
	if t.cloud != nil {
		return nil
	}
	for _, l := range t.flow.Suspects() {
		if _, found := t.left.Load(keyOf(l)); !found {
			texts = append(texts, l.String())
		}
	}
	return texts
}

func (t *target) close() error {
	if t.cloud == nil {
		return nil
	}
	return t.cloud.Close()
}
