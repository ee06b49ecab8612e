package store

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// Config is the part of the configuration on which transitions depend.
type Config struct {
	// Seed chooses the identifiers.
	Seed uint64
	// Quirks restores the defects of upstream.
	Quirks bool
	// Layout is one of the Layout constants.
	Layout string
	// Mdevs says who creates mediated devices: [MdevsByAgent] or [MdevsByNova].
	Mdevs string
	// Collation compares what upstream compares in SQL: names and UUIDs in lookups and filters of the API, and
	// projects. What it compares in Python is compared byte by byte: the instance of a request, and the names in a
	// list of profiles.
	Collation collation.Key
	// RequestIDs returns the number of request IDs that the service has issued; nil means 0.
	RequestIDs func() uint64
}

func (c Config) requestIDs() int64 {
	if c.RequestIDs == nil {
		return 0
	}
	return int64(c.RequestIDs())
}

// The layouts of devices in Placement.
const (
	LayoutTree   = "tree"   // a provider for each deployable, below the provider of the host
	LayoutFlat   = "flat"   // classes and traits on the provider of the host
	LayoutNested = "nested" // like tree, with a provider for each device of several regions
)

// Store is Cyborg's database.
type Store struct {
	cfg   Config
	space uuid.UUID // of the UUIDs
	db    *tables.DB
	texts texts // of the hardware

	profiles      numbered[Profile]
	profileByName tables.Unique[int64, Profile]

	devices      numbered[Device]
	deviceByHost tables.Index[int64, Device]

	deployables          numbered[Deployable]
	deployableByName     tables.Unique[int64, Deployable]
	deployableByDevice   tables.Index[int64, Deployable]
	deployableByProvider tables.Index[int64, Deployable] // in the flat layout, deployables share one

	attributes            numbered[Attribute]
	attributeByDeployable tables.Index[int64, Attribute]

	handles            numbered[Handle]
	handleByDeployable tables.Index[int64, Handle]
	handleOfAgent      tables.Index[int64, Handle] // those that an agent looks after, by deployable

	arqs          numbered[ARQ]
	arqByInstance tables.Index[int64, ARQ]
	arqByProfile  tables.Index[int64, ARQ]

	binds       *tables.Table[int64, Bind]
	bindIDs     tables.Sequence
	bindByPatch tables.Index[int64, Bind]
	bindByARQ   tables.Index[int64, Bind]

	leases            *tables.Table[int64, Lease]
	leaseIDs          tables.Sequence
	leaseByHandle     tables.Unique[int64, Lease]
	leaseByDeployable tables.Unique[int64, Lease]

	agents          *tables.Table[string, Agent]
	agentByFallback tables.Unique[string, Agent]
	reports         *tables.Table[string, HostReport]
	events          *tables.Table[int64, Event]
	eventIDs        tables.Sequence

	providers        *tables.Table[string, Provider]
	providerByHost   tables.Index[string, Provider]
	providerByParent tables.Index[string, Provider]

	names      map[string]tables.Sequence // of what has no natural name, by kind
	requestIDs tables.Sequence
}

// numbered is a table of rows with an id and a UUID.
type numbered[R any] struct {
	*tables.Table[int64, R]
	ids    tables.Sequence
	byUUID tables.Unique[int64, R]
}

// newUUID returns the UUID of a new row, derived from its name. In a state from another program another row may have
// this UUID; then another one is returned.
func (n numbered[R]) newUUID(t Tx, kind, name string) string {
	id := t.s.uuidOf(kind, name)
	for {
		if _, taken := n.byUUID.Get(t.tx, id); !taken {
			return id
		}
		id = t.s.uuidOf(kind, id)
	}
}

func addNumbered[R any](s *Store, spec tables.Spec[int64, R]) numbered[R] {
	t := tables.Add(s.db, spec)
	return numbered[R]{t, tables.KeySequence(t), t.Unique(spec.ID).Collate(s.cfg.Collation)}
}

// edit applies change to the row with a UUID, if it exists, and stores it if it differs.
func (n numbered[R]) edit(t Tx, uuid string, change func(*R)) {
	old, ok := n.byUUID.Get(t.tx, uuid)
	row := old
	if change(&row); ok && !reflect.DeepEqual(&row, &old) {
		n.Put(t.tx, row)
	}
}

// New returns an empty database.
func New(cfg Config) *Store {
	if cfg.Collation == nil {
		cfg.Collation = collation.Exact
	}
	s := &Store{
		cfg: cfg, space: uuid.NewSHA1(uuid.NameSpaceDNS, []byte("fakecyborg.gocyborg")),
		db: tables.New("accelerator"),
	}
	s.addHardware()
	s.addRequests()
	s.addAgents()
	s.addProviders()
	s.names = make(map[string]tables.Sequence)
	for _, kind := range []string{kindProfile, nameARQ, kindAttribute} {
		s.names[kind] = s.db.Sequence(kind + "_uuids")
	}
	s.requestIDs = s.db.Sequence("request_ids")
	s.addChecks()
	return s
}

// The kinds of the names that UUIDs are made of.
const (
	kindProfile    = "device_profile"
	kindDevice     = "device"
	kindDeployable = "deployable"
	kindAttribute  = "attribute"
	kindHandle     = "attach_handle"
	nameARQ        = "arq"
)

func (s *Store) addHardware() {
	s.devices = addNumbered(s, tables.Spec[int64, Device]{
		Name: "devices", Kind: "device", Hidden: []string{"updated_at"},
		Key: func(d Device) int64 { return d.ID }, ID: func(d Device) string { return d.UUID }, Check: Device.check,
	})
	s.deviceByHost = s.devices.Index(func(d Device) string { return d.Host })
	s.devices.Unique(func(d Device) string { return pathKey(d.Host, d.ControlPath.Key()) })

	s.deployables = addNumbered(s, tables.Spec[int64, Deployable]{
		Name: "deployables", Kind: "deployable", Hidden: []string{"updated_at", "region"},
		Key: func(d Deployable) int64 { return d.ID }, ID: func(d Deployable) string { return d.UUID },
		Label: func(d Deployable) string { return d.Name }, Check: Deployable.check,
	})
	s.deployableByName = s.deployables.Unique(func(d Deployable) string { return d.Name })
	s.deployableByDevice = s.deployables.Index(func(d Deployable) string { return d.Device })
	s.deployableByProvider = s.deployables.Index(func(d Deployable) string { return d.Provider }).Collate(s.cfg.Collation)

	s.attributes = addNumbered(s, tables.Spec[int64, Attribute]{
		Name: "attributes", Kind: "attribute", Hidden: []string{"updated_at"},
		Key: func(a Attribute) int64 { return a.ID }, ID: func(a Attribute) string { return a.UUID },
		Label: func(a Attribute) string { return a.Key + " " + a.Value }, Check: Attribute.check,
	})
	s.attributeByDeployable = s.attributes.Index(func(a Attribute) string { return a.Deployable })

	s.handles = addNumbered(s, tables.Spec[int64, Handle]{
		Name: "attach_handles", Kind: "attach_handle", Hidden: []string{"state"},
		Key: func(h Handle) int64 { return h.ID }, ID: func(h Handle) string { return h.UUID },
		Label: func(h Handle) string { return h.Type }, Check: Handle.check,
	})
	s.handleByDeployable = s.handles.Index(func(h Handle) string { return h.Deployable })
	s.handleOfAgent = s.handles.Index(func(h Handle) string {
		if h.InUse() && (h.needsAgent() || h.orphaned()) {
			return h.Deployable
		}
		return ""
	})
}

func (s *Store) addRequests() {
	s.profiles = addNumbered(s, tables.Spec[int64, Profile]{
		Name: "device_profiles", Kind: "device_profile",
		Key: func(p Profile) int64 { return p.ID }, ID: func(p Profile) string { return p.UUID },
		Label: func(p Profile) string { return p.Name }, Check: s.checkProfile,
	})
	s.profileByName = s.profiles.Unique(func(p Profile) string { return p.Name }).Collate(s.cfg.Collation)

	s.arqs = addNumbered(s, tables.Spec[int64, ARQ]{
		Name: "accelerator_requests", Kind: "accelerator_request", Hidden: []string{"updated_at", "attempt"},
		Key: func(a ARQ) int64 { return a.ID }, ID: func(a ARQ) string { return a.UUID },
		Label: func(a ARQ) string { return fmt.Sprintf("of device profile %s, group %d", a.Profile, a.Group) }, Check: ARQ.check,
	})
	s.arqByInstance = s.arqs.Index(func(a ARQ) string { return a.Instance })
	s.arqByProfile = s.arqs.Index(func(a ARQ) string { return a.Profile })

	s.binds = tables.Add(s.db, tables.Spec[int64, Bind]{Name: "binds", Key: func(b Bind) int64 { return b.ID }, Check: Bind.check})
	s.bindIDs = tables.KeySequence(s.binds)
	s.bindByPatch = s.binds.Index(func(b Bind) string { return patchKey(b.Patch) })
	s.bindByARQ = s.binds.Index(func(b Bind) string { return b.ARQ })

	s.leases = tables.Add(s.db, tables.Spec[int64, Lease]{Name: "leases", Key: func(l Lease) int64 { return l.ID }})
	s.leaseIDs = tables.KeySequence(s.leases)
	s.leaseByHandle = s.leases.Unique(func(l Lease) string { return l.Handle })
	s.leaseByDeployable = s.leases.Unique(func(l Lease) string { return l.Deployable })
}

func (s *Store) addAgents() {
	s.agents = tables.Add(s.db, tables.Spec[string, Agent]{Name: "agents", Key: func(a Agent) string { return a.Host }, Check: Agent.check})
	s.agentByFallback = s.agents.Unique(func(a Agent) string { return a.Fallback })
	s.reports = tables.Add(s.db, tables.Spec[string, HostReport]{Name: "driver_reports", Key: func(r HostReport) string { return r.Host }})
	s.events = tables.Add(s.db, tables.Spec[int64, Event]{Name: "events", Key: func(e Event) int64 { return e.ID }})
	s.eventIDs = tables.KeySequence(s.events)
}

func (s *Store) addProviders() {
	s.providers = tables.Add(s.db, tables.Spec[string, Provider]{
		Name: "resource_providers", Key: func(p Provider) string { return p.UUID }, Check: s.checkProvider,
	})
	s.providerByHost = s.providers.Index(func(p Provider) string { return p.Host })
	s.providerByParent = s.providers.Index(func(p Provider) string { return p.Parent })
}

func pathKey(host, path string) string { return host + "\x00" + path }

func patchKey(id int64) string { return strconv.FormatInt(id, 10) }
