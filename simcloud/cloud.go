package simcloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
)

// baseURL is the URL of requests to the in-process transport. The name never resolves, so a
// client without the transport fails instead of reaching another server.
const baseURL = "http://simcloud.invalid"

// maxRequests limits the record of requests.
const maxRequests = 20000

// maxTokens limits the number of valid tokens: the oldest are revoked.
const maxTokens = 1 << 16

// Option configures a cloud in code. What a file can configure is in Model.
type Option func(*settings)

type settings struct {
	clock     sim.Clock
	agentLoop bool
	external  *externalConfig
	stateFile string
	logger    *slog.Logger
	drivers   *builtin.Registry
	fault     error              // of an option
	keep      func(*Cloud) error // writes the state to the file from now on
}

func newSettings(opts []Option) settings {
	set := settings{keep: func(*Cloud) error { return nil }, drivers: new(builtin.Registry)}
	for _, opt := range opts {
		opt(&set)
	}
	return set
}

// WithClock sets the clock; the default is the wall clock, which is virtual inside a
// testing/synctest bubble.
func WithClock(clock sim.Clock) Option { return func(s *settings) { s.clock = clock } }

// WithLogger logs what no API reports: why binds fail, and events that were refused or could not
// be forwarded to a URL. Without it nothing is logged.
func WithLogger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// WithAgentLoop makes the agents report every minute, as real ones do. Without it they
// report when the cloud is made and when Cyborg.Report is called, unless a host has [RootNova].
func WithAgentLoop() Option { return func(s *settings) { s.agentLoop = true } }

// WithDriver adds a driver from outside: hosts of the model enable it by its name ([Host.Drivers],
// enabled_drivers) and configure it in a section of that name. Such a host is a host like any other:
// its mediated devices are checked for leaks, it can be stopped, started and rebooted, and a state
// has it. A driver that remembers something is a [driver.Snapshotter], one that is its own hardware
// a [driver.Machine].
func WithDriver(name string, load builtin.Load) Option {
	return func(s *settings) {
		if err := s.drivers.Add(name, load); err != nil {
			s.fault = errors.Join(s.fault, fmt.Errorf("simcloud: %w", err))
		}
	}
}

// Cloud is a running simulated cloud. It is safe for parallel use.
type Cloud struct {
	// Placement and Cyborg are the services, for their direct APIs.
	Placement *placementsim.Server
	Cyborg    *fakecyborg.Server

	model      Model
	clock      sim.Clock
	started    time.Time
	identity   *keystone.Server
	compute    *nova.Server
	images     *glance.Server
	faults     *fault.Set
	recorder   *simhttp.Recorder
	handler    http.Handler
	controls   http.Handler // below /_sim/
	transport  *simhttp.Transport
	inside     http.RoundTripper // for requests between the services
	drivers    *builtin.Registry
	machines   []*machine
	machineOf  map[string]*machine // by the name of the host
	external   *external           // nil: Placement is simulated
	servers    *client.Client      // of a real Nova; nil: Nova is simulated
	page       *statuspage.Page
	explaining sync.Mutex // of hosts, for the page
	agentLoop  bool
	loads      atomic.Int64 // of a state, which may not know the tokens issued before
	hardware   hardware
	state      tables.Group
	keeper     atomic.Pointer[tables.Keeper] // nil: no file keeps the state

	countCommits sync.Once
	commits      commits
	endStreams   func()
	serviceToken func(context.Context) (string, error) // of the user nova
}

// New makes a cloud from a model: it starts the services, creates the providers of each host
// in Placement, makes the agents report, and creates the device profiles. It needs no
// network. The caller has to close the cloud.
//
// The error names the step that failed; it matches [ErrModel] if the model caused it. A
// device of a directory (Sysfs.Dir) that cannot be read is not an error, and neither is one that
// Nova offers, too, which the agent refuses: see [Cloud.Findings].
func New(ctx context.Context, m Model, opts ...Option) (*Cloud, error) {
	set := newSettings(opts)
	if set.stateFile != "" {
		return newKept(ctx, m, set)
	}
	return newBuilt(ctx, m, set)
}

// RunOption configures the cloud of [Run]: a [Model] or an [Option].
type RunOption interface{ configure(*Model, *[]Option) }

func (m Model) configure(model *Model, _ *[]Option) { *model = m }

func (o Option) configure(_ *Model, list *[]Option) { *list = append(*list, o) }

// Run makes a cloud that is closed at the end of the test, from the default model or from the last
// one in its arguments, with the options among them. An error fails the test.
func Run(t sim.TB, options ...RunOption) *Cloud {
	t.Helper()
	var model Model
	var list []Option
	for _, option := range options {
		option.configure(&model, &list)
	}
	c, err := New(t.Context(), model, list...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	open := c // package testing keeps the cleanup of a test until its parent has ended
	t.Cleanup(func() {
		if err := open.Close(); err != nil {
			t.Errorf("simcloud: close: %v", err)
		}
		open = nil
	})
	return c
}

// newBuilt makes a cloud with the world of its model.
func newBuilt(ctx context.Context, m Model, set settings) (*Cloud, error) {
	return assemble(m, set, func(c *Cloud) error {
		if err := c.build(ctx); err != nil {
			return err
		}
		return set.keep(c)
	})
}

// assemble starts the services of a cloud and calls fill.
func assemble(m Model, set settings, fill func(*Cloud) error) (*Cloud, error) {
	if err := errors.Join(set.fault, m.validate(set.drivers)); err != nil {
		return nil, err
	}
	if set.clock == nil {
		set.clock = simhttp.Wall{}
	}
	c := &Cloud{
		model: m.withDefaults(), clock: set.clock, started: set.clock.Now(), agentLoop: set.agentLoop,
		drivers: set.drivers, faults: fault.NewSet(), recorder: simhttp.NewRecorder(maxRequests), machineOf: make(map[string]*machine),
	}
	c.agentLoop = c.agentLoop || c.model.hasNovaRoots()
	c.faults.Seed(c.model.Seed)
	if err := c.start(set); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.recorder.Pause()
	if err := fill(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.recorder.Reset()
	return c, nil
}

// start makes the services and connects them.
func (c *Cloud) start(set settings) error {
	c.recorder.RefusesUnrecognized = c.model.StrictRequests
	identity := c.model.identity()
	identity.Clock, identity.Faults, identity.MaxTokens = c.clock, c.faults, maxTokens
	c.identity = keystone.New(identity)
	release, err := nova.ParseRelease(c.model.NovaRelease)
	if err != nil {
		return err // the model was checked
	}
	c.compute = nova.New(nova.Config{
		Seed: c.model.Seed, Release: release, StrictInstances: c.model.StrictInstances, EventForm: string(c.model.Cyborg.EventForm),
		Clock: c.clock, Faults: c.faults, Verifier: c.identity, Token: c.tokenSource("cyborg"), Logger: set.logger,
		Flavors: c.model.novaFlavors(),
	})
	if url, ok := c.model.Catalog["compute"]; ok {
		if err := c.compute.ForwardTo(eventsURL(url)); err != nil {
			return err // the model was checked
		}
	}
	c.servers = c.newServers()
	c.images = glance.New(glance.Config{Seed: c.model.Seed, Clock: c.clock, Faults: c.faults, Verifier: c.identity})
	done := make(chan struct{})
	c.endStreams = sync.OnceFunc(func() { close(done) })
	c.page = statuspage.New(pageCloud{c})
	c.page.Done = done
	c.serviceToken = c.tokenSource("nova")
	recorded := simhttp.Recording(http.HandlerFunc(c.serve), c.recorder)
	c.handler = simhttp.Synced(recorded, c.Save)
	c.transport = simhttp.NewTransport(c.handler)
	c.transport.Prompt = c.isPrompt
	c.inside = c.transport.Internal()
	if err := c.startPlacement(set.external); err != nil {
		return err
	}
	if err := c.startCyborg(set.logger); err != nil {
		return err
	}
	for _, operations := range [][]sim.OperationName{
		placementsim.Operations(), fakecyborg.Operations(), c.identity.Operations(), c.compute.Operations(), c.images.Operations(),
	} {
		c.faults.Register(operations...)
	}
	c.hardware.cloud = c
	c.state = c.components()
	c.controls = c.control().Handler()
	return nil
}

// startPlacement makes the simulated Placement, and connects the external one if there is
// one.
func (c *Cloud) startPlacement(external *externalConfig) (err error) {
	c.Placement, err = placementsim.New(c.model.placement(), placementsim.WithTokenVerifier(c.identity),
		placementsim.WithFaults(c.faults), placementsim.WithClock(c.clock), placementsim.WithPrefix("/placement"))
	if err != nil {
		return fmt.Errorf("%w: placement: %w", ErrModel, err)
	}
	if external != nil {
		c.external, err = c.newExternal(*external)
	}
	return err
}

func (c *Cloud) startCyborg(logger *slog.Logger) (err error) {
	opts := []fakecyborg.Option{
		fakecyborg.WithTokenVerifier(c.identity), fakecyborg.WithFaults(c.faults), fakecyborg.WithClock(c.clock),
		fakecyborg.WithPlacement(c.peer("/placement", "cyborg")), fakecyborg.WithNova(c.peer("/compute/v2.1", "cyborg")),
		fakecyborg.WithGlance(c.glance()), fakecyborg.WithLogger(logger),
	}
	if c.agentLoop {
		opts = append(opts, fakecyborg.WithAgentLoop())
	}
	if c.Cyborg, err = fakecyborg.New(c.model.Cyborg, opts...); err != nil {
		return fmt.Errorf("%w: cyborg: %w", ErrModel, err)
	}
	return nil
}

// peer is a service of the cloud as another one, or the cloud itself, reaches it.
func (c *Cloud) peer(path, user string) sim.Endpoint {
	return sim.Endpoint{URL: baseURL + path, Client: &http.Client{Transport: c.inside}, Token: c.tokenSource(user)}
}

// serve routes requests to the services. It compares path prefixes instead of using
// ServeMux, which redirects some paths; clients refuse redirects.
func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "placement":
		c.servePlacement(w, r)
	case "accelerator":
		c.Cyborg.ServeHTTP(w, r)
	case "compute":
		c.compute.ServeHTTP(w, r)
	case "image":
		c.images.ServeHTTP(w, r)
	case "_sim":
		c.controls.ServeHTTP(w, r)
	default:
		c.identity.ServeHTTP(w, r)
	}
}

// isPrompt reports whether a request is answered at once: Placement, Keystone and what only reads wait
// for nothing but fault rules.
func (c *Cloud) isPrompt(r *http.Request) bool {
	if !c.faults.Idle() || c.external != nil {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "placement", "identity", "v3":
		return true
	case "accelerator", "compute", "image":
		return r.Method == http.MethodGet
	}
	return false
}

// Close stops work in progress, such as delayed binds, events and requests, closes the directories and
// the state file, and removes what the cloud created in an external Placement. The error is
// that of closing a directory, of the last write of the state, or of removing a provider
// that is still in use.
func (c *Cloud) Close() error {
	if c.endStreams != nil {
		c.endStreams()
	}
	if c.Cyborg != nil {
		c.Cyborg.Close()
	}
	if c.Placement != nil {
		c.Placement.Close()
	}
	if c.compute != nil {
		c.compute.Close()
		c.images.Close()
		c.identity.Close()
	}
	return errors.Join(c.external.remove(c.machines), c.keeper.Swap(nil).Close(), c.closeHosts())
}

// Model returns the model of the cloud with all defaults written out.
func (c *Cloud) Model() Model { return c.model }

// Handler serves the whole cloud: Identity at /identity/v3 (also /v3, and / as the list of
// versions), Placement at /placement, Cyborg at /accelerator/v2, the stand-in for Nova at
// /compute/v2.1, that for Glance at /image, and the simulator's own routes below /_sim/.
func (c *Cloud) Handler() http.Handler { return c.handler }

// Transport sends all requests to the cloud without a socket, regardless of their host. A
// handler continues if the context of its caller ends, as on a network.
func (c *Cloud) Transport() http.RoundTripper { return c.transport }

// URL is the address of the cloud behind Transport, without a final slash.
func (c *Cloud) URL() string { return baseURL }

// Faults are the fault rules of all services; Faults().Operations() lists the operations.
func (c *Cloud) Faults() *fault.Set { return c.faults }

// HandleEvents sets the handler in the role of nova-compute: it gets the events that the
// compute endpoint accepts, as a POST of the same form with a token of the user
// cyborg, who has the roles admin and service, before the sender gets its answer. If the cloud was made from a state, the handler also
// gets the events that fault rules had delayed in it.
func (c *Cloud) HandleEvents(h http.Handler) {
	c.compute.HandleEvents(h)
	c.compute.Resume()
}

// ForwardEventsTo sets URLs that get accepted events by POST, as the handler of
// [Cloud.HandleEvents] does, for agents in other processes and for a nova-api, in place of the URL in
// [Model.Catalog]. Redirects are not followed. A post is repeated up to five times, with pauses of 1 to 16
// seconds, where the connection is refused or the answer is 502, 503 or 504; an event that an answer 207
// refuses is not sent again. Lost events appear in [Cloud.ReceivedEvents], on the status page and
// in the log of [WithLogger]. It returns an error for a URL that is not an absolute http or https
// URL, or has a user name or password. A query is sent, but never shown.
func (c *Cloud) ForwardEventsTo(urls ...string) error {
	if err := c.compute.ForwardTo(urls...); err != nil {
		return err
	}
	c.compute.Resume()
	return nil
}
