package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const (
	instance       = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	secondInstance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"
)

// alone is the configuration of a flow whose project no other client uses. It may never leak.
var alone = spawn.Config{ExclusiveProject: true}

// leftovers lists the leftovers that an error names.
func leftovers(err error) []spawn.Leftover {
	var failure *spawn.Error
	if !errors.As(err, &failure) {
		return nil
	}
	return failure.Leftovers
}

// certainlyLeft lists the leftovers of an error that are known to exist.
func certainlyLeft(err error) []spawn.Leftover {
	return slices.DeleteFunc(slices.Clone(leftovers(err)), func(l spawn.Leftover) bool { return !l.Certain })
}

// settled ends a test that has an error.
func settled(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkDiff compares two values. The text says what they are, and which is marked with - and which with +.
func checkDiff(t *testing.T, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

// world is a cloud with a flow against it.
type world struct {
	cloud  *simcloud.Cloud
	cyborg *cyborgclient.Client
	events *externalevent.Registry
	flow   *spawn.Flow
}

type worldOpts struct {
	model  *simcloud.Model
	config spawn.Config // with PlacementOrder, unless spread is set
	poll   bool
	spread bool
}

func newWorld(t *testing.T, opts worldOpts) *world {
	t.Helper()
	model := simcloud.DefaultModel()
	if opts.model != nil {
		model = *opts.model
	}
	w := &world{cloud: simcloud.Run(t, model), events: externalevent.NewRegistry()}
	w.cloud.HandleEvents(w.events.Handler())
	opts.config.PlacementOrder = !opts.spread
	options := []spawn.Option{spawn.WithConfig(opts.config)}
	if opts.poll {
		options = append(options, spawn.WithEvents(nil))
	}
	w.connect(t, w.cloud.Provider(t), options...)
	return w
}

// connect creates the flow of a provider client and its Cyborg client. The options override the service token and the
// events of the world.
func (w *world) connect(t testing.TB, provider *gophercloud.ProviderClient, opts ...spawn.Option) {
	t.Helper()
	opts = append([]spawn.Option{
		spawn.WithServiceProvider(w.cloud.ServiceProvider(t)), spawn.WithEvents(w.events), spawn.WithConfig(spawn.Config{PlacementOrder: true}),
		spawn.WithJournal(journal.NewMemory()),
	}, opts...)
	flow, err := spawn.NewFromProvider(provider, opts...)
	settled(t, err)
	w.flow, w.cyborg = flow, flow.Cyborg()
}

// flavor names a device profile of the default model.
func flavor(profile string) requestspec.Flavor {
	return requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 2, MemoryMB: 2048, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}
}

func request(profile string) spawn.Request {
	return spawn.Request{Instance: instance, Flavor: flavor(profile)}
}

// checkPromise checks the guarantee of the flow: with a result the guest has all of its accelerators, without one
// nothing is allocated.
func (w *world) checkPromise(t *testing.T, result *spawn.Result, err error) {
	t.Helper()
	if (result == nil) == (err == nil) {
		t.Fatalf("result %v with error %v", result, err)
	}
	if result != nil {
		w.define(t, result)
	}
	w.cloud.CheckNoLeaks(t)
	if pending := w.events.Pending(); pending != 0 {
		t.Errorf("%d events are still registered", pending)
	}
}

// define creates the guest of a result.
func (w *world) define(t testing.TB, result *spawn.Result) {
	t.Helper()
	guest := sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}
	settled(t, w.cloud.DefineGuest(guest))
}

// interceptor is a transport that calls a function at the n-th request.
type interceptor struct {
	next   http.RoundTripper
	n      int64
	before func(*http.Request)
	after  func(*http.Request)
	seen   atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (i *interceptor) RoundTrip(req *http.Request) (*http.Response, error) {
	hit := i.seen.Add(1) == i.n
	if hit && i.before != nil {
		i.before(req)
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	res, err := i.next.RoundTrip(req)
	if hit && i.after != nil {
		i.after(req)
		if ctxErr := req.Context().Err(); ctxErr != nil {
			if err == nil {
				res.Body.Close()
			}
			return nil, ctxErr
		}
	}
	return res, err
}

// intercept puts an interceptor between the flow's clients and the cloud.
func (w *world) intercept(t *testing.T, i *interceptor, config spawn.Config) {
	t.Helper()
	provider := w.cloud.Provider(t)
	i.next = provider.HTTPClient.Transport
	provider.HTTPClient.Transport = i
	w.connect(t, provider, spawn.WithConfig(config))
	i.seen.Store(0) // discovery does not count
}

// walk runs steps of an attempt.
func walk(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// placement returns a Placement client.
func (w *world) placement(t *testing.T) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewPlacementV1(w.cloud.Provider(t), gophercloud.EndpointOpts{})
	settled(t, err)
	return client
}

type httpTransport = http.RoundTripper

// newestPlacement makes Placement look older: it refuses later microversions.
type newestPlacement struct {
	next   http.RoundTripper
	newest int
}

// RoundTrip implements http.RoundTripper.
func (o newestPlacement) RoundTrip(req *http.Request) (*http.Response, error) {
	minor, asked := 0, strings.TrimPrefix(req.Header.Get("OpenStack-API-Version"), "placement 1.")
	if _, err := fmt.Sscan(asked, &minor); err == nil && strings.Contains(req.URL.Path, "/placement/") && minor > o.newest {
		return answer(req, http.StatusNotAcceptable, fmt.Sprintf(`{"errors": [{"status": 406, "title": "Not Acceptable", "detail": "Unacceptable version header: 1.%d", "max_version": "1.%d", "min_version": "1.0"}]}`,
			minor, o.newest)), nil
	}
	return o.next.RoundTrip(req)
}

// answer returns a fabricated JSON response.
func answer(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}
