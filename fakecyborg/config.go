package fakecyborg

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/sim"
)

// Errors to compare with errors.Is.
var (
	// ErrConfig is matched by every error about a configuration that cannot be used.
	ErrConfig = errors.New("fakecyborg: bad configuration")
	// ErrHost is matched by errors about a host that is unknown or cannot be added.
	ErrHost error = agent.ErrHost
	// ErrAgentDown is matched by the error about an agent that does not run.
	ErrAgentDown error = agent.ErrAgentDown
	// ErrNotReported is matched by the error of a report that did not find the provider of its host in
	// Placement, which does not answer, refuses the request or does not have it.
	ErrNotReported error = agent.ErrNotReported
	// ErrStandardTrait is matched by the error about a device that a release before 2023.2 cannot report, because it has a
	// trait such as OWNER_CYBORG.
	ErrStandardTrait error = layout.ErrStandardTrait
	// ErrOwnerConflict is matched by the error about a device that Nova offers, too, by its [pci]device_spec or with a resource
	// provider that carries OWNER_NOVA. The agent does not report such a device. Upstream reports it.
	ErrOwnerConflict error = agent.ErrOwnerConflict
	// ErrAllocated is matched by the error of [Unflatten] when an accelerator is allocated on a
	// compute provider.
	ErrAllocated = errors.New("accelerators are allocated")
)

// PlacementMode is the form of Cyborg's provider trees in Placement.
type PlacementMode string

// EventForm is the form of the events that Cyborg sends to Nova.
type EventForm string

// MdevCreation selects the service that creates the mediated devices of bound requests. Cyborg's
// agent removes them in any case.
type MdevCreation string

// The named values of a Config, and of a device's status.
const (
	// ModeTree is the default placement mode: each deployable has a provider directly below the
	// provider of its host, as upstream.
	ModeTree PlacementMode = store.LayoutTree
	// ModeFlat puts classes and traits on the provider of the compute host itself, as the Rocky
	// specification does for a Nova without nested providers. Devices of one host must all have
	// the same traits.
	ModeFlat PlacementMode = store.LayoutFlat
	// ModeNested is ModeTree with a provider for each device with regions, between the host and
	// the regions, as in the Rocky specification. A device of one deployable has a region if its
	// traits name the type.
	ModeNested PlacementMode = store.LayoutNested

	// EventFormShipped is the default form of events, which Cyborg sends and Nova accepts: an
	// event accelerator-request-bound for each request, all of a PATCH in one POST once the last
	// is resolved.
	EventFormShipped EventForm = agent.EventFormShipped
	// EventFormTrain is the form of the Train specification: an event arq_resolved of status ok
	// or failed for each request, all of a PATCH in one POST once the last is resolved.
	EventFormTrain EventForm = agent.EventFormTrain
	// EventFormUssuri is the form of the Ussuri specification: one event
	// accelerator-requests-bound for an instance once all requests of a PATCH are resolved, with
	// the name of the device profile as its tag. Its status is failed if one request failed.
	EventFormUssuri EventForm = agent.EventFormUssuri

	// MdevsByAgent is the default: the agent creates the mediated device of a request before it is
	// Bound, as Cyborg does since 10.1, and creates it again after a restart of its host, which Cyborg does not.
	MdevsByAgent MdevCreation = store.MdevsByAgent
	// MdevsByNova leaves the creation to nova-compute, as the vGPU specification of Nova 2026.2 says: Nova 34 looks for the device
	// of a Bound request, and creates a missing one. The agent removes it when the request is unbound.
	MdevsByNova MdevCreation = store.MdevsByNova

	// StatusEnabled is the status of a device that is offered.
	StatusEnabled = store.StatusEnabled
	// StatusMaintaining is the status of a disabled device: its inventory is reserved in
	// Placement.
	StatusMaintaining = store.StatusMaintaining
)

// defaultBindTimeout is upstream's [DEFAULT] bind_timeout.
const defaultBindTimeout = 60 * time.Second

// The defaults of an agent's heartbeat. Upstream has no heartbeat; its specification (Wallaby,
// vGPU) leaves the numbers open.
const (
	defaultHeartbeat   = 10 * time.Second
	defaultMissedBeats = 3
)

// Config says which Cyborg a Server is. The zero value is the present release with its defects
// fixed, binding inline, as upstream does for everything but FPGA programming. In JSON the
// durations are texts such as "1.5s".
type Config struct {
	// Release is the release to simulate: a series such as "2025.1", which means its newest point release, or a point
	// release such as "14.0.0"; Releases lists them. Empty means Release20262.
	Release Release `json:"release,omitempty"`
	// UpstreamQuirks restores the defects of upstream, such as the status 500 for bad input,
	// profiles that make no request, an ARQ that stays BindStarted, and events that all name the
	// first instance of their PATCH. docs/dev/cyborg-behaviour.md lists all of them.
	UpstreamQuirks bool `json:"upstream_quirks,omitempty"`
	// AsyncBind answers every PATCH at once and ends its binds in the background, for every type
	// of handle. Upstream does so for FPGAs that are to be programmed, its specifications for
	// all.
	AsyncBind bool `json:"async_bind,omitempty"`
	// BindDelay is how long a bind in the background takes on the server's clock. Above zero it
	// implies AsyncBind.
	BindDelay time.Duration `json:"-"`
	// BindTimeout is upstream's bind_timeout, 60 s if zero: a delayed bind that takes longer
	// fails (UpstreamQuirks: is not reported).
	BindTimeout time.Duration `json:"-"`
	// AnswerPatch gives the 202 of a PATCH the body {"arqs": [...]} of the specifications; the
	// real service sends none.
	AnswerPatch bool `json:"answer_patch,omitempty"`
	// EventForm is the form of the events for Nova: one of the EventForm constants; empty means
	// EventFormShipped.
	EventForm EventForm `json:"event_form,omitempty"`
	// MdevCreation selects the service that creates mediated devices: one of MdevsByAgent and
	// MdevsByNova; empty means MdevsByAgent.
	MdevCreation MdevCreation `json:"mdev_creation,omitempty"`
	// BindingStates shows the states provisioning and unknown of the Wallaby specification: the
	// first while the mediated devices of a restarted host are being created, the second while
	// heartbeats of its agent are missing.
	BindingStates bool `json:"binding_states,omitempty"`
	// HeartbeatPeriod is the time between two heartbeats of an agent, 10 s if zero.
	HeartbeatPeriod time.Duration `json:"-"`
	// MissedBeats is how many heartbeats must be missing before the state of a request is
	// unknown; 3 if zero.
	MissedBeats int `json:"missed_beats,omitempty"`
	// RuntimeProgramming lets the owner of a Bound request program the region it holds;
	// otherwise only administrators may, as upstream.
	RuntimeProgramming bool `json:"runtime_programming,omitempty"`
	// ReadLag makes each GET of requests show them as they were that long ago, as an API worker
	// does whose replica of the database is behind. Changes are checked against the present.
	ReadLag time.Duration `json:"-"`
	// ClockSkew is how far the clock of the header Date is ahead of that of created_at and
	// updated_at: the answer is of another host than the row.
	ClockSkew time.Duration `json:"-"`
	// UseImageUUID makes the creation of requests read image_uuid: the bitstream or function
	// that this image of Glance names is programmed where the group names none (Train
	// specification). Upstream ignores the field.
	UseImageUUID bool `json:"use_image_uuid,omitempty"`
	// RequireServiceToken says whether bind, unbind and deletion by instance need
	// X-Service-Token; nil means what the release does. On every route a service token that
	// is invalid, or lacks the role service where one is needed, is answered 401.
	RequireServiceToken *bool `json:"require_service_token,omitempty"`
	// EnforceNewDefaults chooses the new defaults of the policies (oslo.policy's enforce_new_defaults), or the old ones of
	// 2026.2. Nil means what the release does: they apply in ReleaseMaster. Earlier releases than 2026.2 cannot choose.
	EnforceNewDefaults *bool `json:"enforce_new_defaults,omitempty"`
	// EnableProxyHeadersParsing makes links follow X-Forwarded-Proto and X-Forwarded-Host (oslo.middleware's
	// enable_proxy_headers_parsing). Releases before 2026.2 never do.
	EnableProxyHeadersParsing bool `json:"enable_proxy_headers_parsing,omitempty"`
	// Collation is how names and UUIDs compare where Cyborg compares them in SQL: names of device profiles, UUIDs of all that is
	// looked up, filters of devices, deployables and attributes, and projects. Empty means sim.CollationMySQL.
	Collation sim.Collation `json:"collation,omitempty"`
	// PlacementMode is one of the Mode constants; empty means [ModeTree].
	PlacementMode PlacementMode `json:"placement_mode,omitempty"`
	// Seed chooses the identifiers.
	Seed uint64 `json:"seed,omitempty"`
	// PublicEndpoint is the scheme and host that links start with; empty means those of each
	// request. It is upstream's [api] public_endpoint.
	PublicEndpoint string `json:"public_endpoint,omitempty"`
}

type plainConfig Config

// configJSON is a Config in JSON.
type configJSON struct {
	plainConfig
	BindDelay       strictjson.Duration `json:"bind_delay,omitempty"`
	BindTimeout     strictjson.Duration `json:"bind_timeout,omitempty"`
	HeartbeatPeriod strictjson.Duration `json:"heartbeat_period,omitempty"`
	ReadLag         strictjson.Duration `json:"read_lag,omitempty"`
	ClockSkew       strictjson.Duration `json:"clock_skew,omitempty"`
}

// MarshalJSON writes the configuration with its durations as text.
func (c Config) MarshalJSON() ([]byte, error) {
	return json.Marshal(configJSON{
		plainConfig(c), strictjson.Duration(c.BindDelay), strictjson.Duration(c.BindTimeout), strictjson.Duration(c.HeartbeatPeriod), strictjson.Duration(c.ReadLag), strictjson.Duration(c.ClockSkew),
	})
}

// UnmarshalJSON reads a configuration and refuses unknown fields; the error matches
// [ErrConfig].
func (c *Config) UnmarshalJSON(data []byte) error {
	var wire configJSON
	if err := strictjson.Decode(data, &wire); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	*c = Config(wire.plainConfig)
	c.BindDelay, c.BindTimeout = time.Duration(wire.BindDelay), time.Duration(wire.BindTimeout)
	c.HeartbeatPeriod = time.Duration(wire.HeartbeatPeriod)
	c.ReadLag, c.ClockSkew = time.Duration(wire.ReadLag), time.Duration(wire.ClockSkew)
	return nil
}

// Validate reports why no Server can be made of the configuration; the error matches
// [ErrConfig] and names the field.
func (c Config) Validate() error {
	if err := errors.Join(
		c.Release.check(),
		checkKnown("placement_mode", c.PlacementMode, ModeTree, ModeFlat, ModeNested),
		checkKnown("event_form", c.EventForm, EventFormShipped, EventFormTrain, EventFormUssuri),
		checkKnown("mdev_creation", c.MdevCreation, MdevsByAgent, MdevsByNova),
	); err != nil {
		return err
	}
	if err := c.Collation.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	switch {
	case c.EnforceNewDefaults != nil && cmp.Or(c.Release, Release20262).release(nil).NewDefaults == neverApply:
		return fmt.Errorf("%w: enforce_new_defaults: release %s cannot choose, it has one set of policies", ErrConfig, c.Release)
	case c.BindDelay < 0:
		return fmt.Errorf("%w: bind_delay %s is negative", ErrConfig, c.BindDelay)
	case c.BindTimeout < 0:
		return fmt.Errorf("%w: bind_timeout %s is negative", ErrConfig, c.BindTimeout)
	case c.HeartbeatPeriod < 0:
		return fmt.Errorf("%w: heartbeat_period %s is negative", ErrConfig, c.HeartbeatPeriod)
	case c.ReadLag < 0:
		return fmt.Errorf("%w: read_lag %s is negative", ErrConfig, c.ReadLag)
	case c.MissedBeats < 0:
		return fmt.Errorf("%w: missed_beats %d is negative", ErrConfig, c.MissedBeats)
	}
	if c.PublicEndpoint == "" {
		return nil
	}
	if err := simhttp.CheckBase(c.PublicEndpoint); err != nil {
		return fmt.Errorf("%w: public_endpoint: %w", ErrConfig, err)
	}
	return nil
}

// checkKnown refuses a value that is neither empty nor one of the known ones.
func checkKnown[T ~string](field string, value T, known ...T) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	names := make([]string, len(known))
	for i, name := range known {
		names[i] = string(name)
	}
	return fmt.Errorf("%w: %s %q (known: %s)", ErrConfig, field, value, strings.Join(names, ", "))
}

// WithDefaults returns the configuration with its defaults written out.
func (c Config) WithDefaults() Config {
	c.Release = cmp.Or(c.Release, Release20262).canonical()
	c.PlacementMode = cmp.Or(c.PlacementMode, ModeTree)
	c.EventForm = cmp.Or(c.EventForm, EventFormShipped)
	c.MdevCreation = cmp.Or(c.MdevCreation, MdevsByAgent)
	c.Collation = cmp.Or(c.Collation, sim.CollationMySQL)
	c.BindTimeout = cmp.Or(c.BindTimeout, defaultBindTimeout)
	c.HeartbeatPeriod = cmp.Or(c.HeartbeatPeriod, defaultHeartbeat)
	c.MissedBeats = cmp.Or(c.MissedBeats, defaultMissedBeats)
	if c.RequireServiceToken == nil {
		required := c.Release.release(nil).ServiceToken == yes
		c.RequireServiceToken = &required
	}
	if defaults := c.Release.release(nil).NewDefaults; c.EnforceNewDefaults == nil && defaults != neverApply {
		enforced := defaults == onByDefault
		c.EnforceNewDefaults = &enforced
	}
	c.PublicEndpoint = strings.TrimSuffix(strings.TrimRight(c.PublicEndpoint, "/"), "/accelerator")
	return c
}

// async reports whether binds end after their PATCH was answered.
func (c Config) async() bool { return c.AsyncBind || c.BindDelay > 0 }
