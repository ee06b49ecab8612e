package keystone

import (
	"net/http"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Password is the password of every user.
const Password = "secret"

// DefaultTokenLifetime is how long a token is valid unless Config says otherwise; it
// is the default of Keystone's option [token] expiration.
const DefaultTokenLifetime = time.Hour

// Config is the configuration of a Server. The zero value is a cloud that has only the
// identity service in its catalog.
type Config struct {
	// Seed determines identifiers and tokens.
	Seed uint64
	// Region is the region of every endpoint; RegionOne if empty.
	Region string
	// TokenLifetime is how long a token is valid; DefaultTokenLifetime if zero.
	TokenLifetime time.Duration
	// Users are there beside admin, demo, nova and cyborg, whom one of the same name
	// replaces.
	Users []User
	// Services are the catalog's entries beside identity itself.
	Services []CatalogEntry
	// Clock is what tokens expire by; the machine's clock if nil.
	Clock sim.Clock
	// Faults are the rules that act on requests; nil has none.
	Faults *fault.Set
}

// CatalogEntry is a service in the catalog.
type CatalogEntry struct {
	// Type and Name are what clients look for: "accelerator", "cyborg".
	Type, Name string
	// Path is where the service stands on the host that a client talks to:
	// "/accelerator/v2".
	Path string
}

// Server is the identity service. It is an http.Handler for /identity, /identity/v3,
// /v3 and the version list at /, and safe for parallel use.
type Server struct {
	*simhttp.Service
	cfg       Config
	directory directory
	state     state
	sweepAt   int64 // tokens; changed in transactions only
}

var _ http.Handler = (*Server)(nil)

// New returns a server with the users admin (project admin, role admin), demo
// (project demo, role member), nova (project service, role service) and cyborg
// (project service, roles service and admin).
func New(cfg Config) *Server {
	if cfg.Region == "" {
		cfg.Region = "RegionOne"
	}
	if cfg.TokenLifetime <= 0 {
		cfg.TokenLifetime = DefaultTokenLifetime
	}
	if cfg.Clock == nil {
		cfg.Clock = sim.Wall{}
	}
	cfg.Services = append([]CatalogEntry{{"identity", "keystone", "/identity/v3"}}, cfg.Services...)
	s := &Server{cfg: cfg, directory: newDirectory(cfg.Seed, cfg.Users)}
	s.state = newState(&s.directory)
	s.Service = &simhttp.Service{
		Name:       "identity",
		Prefixes:   []string{"/identity"},
		Router:     simhttp.NewRouter(simhttp.WithInputs(s.routes(), inputs())...),
		Handler:    s.serve,
		WriteError: writeError,
		Clock:      cfg.Clock,
		Faults:     cfg.Faults,
		IDs:        simhttp.NewIDs(cfg.Seed, "identity"),
	}
	return s
}

// routes registers every version root in both spellings: ServeMux would redirect one
// to the other, and keystoneauth refuses the redirect.
func (s *Server) routes() []simhttp.Route {
	var routes []simhttp.Route
	get := func(operation string, handler simhttp.Handler, patterns ...string) {
		for _, pattern := range patterns {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				routes = append(routes, simhttp.Route{Operation: operation, Method: method, Pattern: pattern, Handler: handler})
			}
		}
	}
	get("identity.versions.list", s.listVersions, "", "/")
	get("identity.version.get", s.getVersion, "/v3", "/v3/")
	get("identity.token.validate", s.authenticated(s.validateToken), "/v3/auth/tokens")
	get("identity.auth.catalog", s.authenticated(s.authCatalog), "/v3/auth/catalog")
	get("identity.auth.projects", s.authenticated(s.authProjects), "/v3/auth/projects")
	get("identity.project.list", s.authenticated(admins("identity:list_projects", s.listProjects)), "/v3/projects")
	get("identity.project.get", s.authenticated(s.getProject), "/v3/projects/{id}")
	get("identity.user.list", s.authenticated(admins("identity:list_users", s.listUsers)), "/v3/users")
	get("identity.user.get", s.authenticated(s.getUser), "/v3/users/{id}")
	get("identity.domain.list", s.authenticated(admins("identity:list_domains", s.listDomains)), "/v3/domains")
	get("identity.domain.get", s.authenticated(admins("identity:get_domain", s.getDomain)), "/v3/domains/{id}")
	get("identity.role.list", s.authenticated(admins("identity:list_roles", s.listRoles)), "/v3/roles")
	get("identity.application_credential.list", s.authenticated(s.listCredentials), credentialsPath)
	get("identity.application_credential.get", s.authenticated(s.getCredential), credentialsPath+"/{credential}")
	get("identity.service.list", s.authenticated(admins("identity:list_services", s.listServices)), "/v3/services")
	get("identity.service.get", s.authenticated(admins("identity:get_service", s.getService)), "/v3/services/{id}")
	get("identity.region.list", s.authenticated(s.listRegions), "/v3/regions")
	get("identity.region.get", s.authenticated(s.getRegion), "/v3/regions/{id}")
	tokens := "/v3/auth/tokens"
	return append(routes,
		simhttp.Route{Operation: "identity.token.create", Method: http.MethodPost, Pattern: tokens, Handler: s.createToken},
		simhttp.Route{Operation: "identity.token.revoke", Method: http.MethodDelete, Pattern: tokens, Handler: s.authenticated(s.revokeToken)},
		simhttp.Route{Operation: "identity.application_credential.create", Method: http.MethodPost, Pattern: credentialsPath, Handler: s.authenticated(s.createCredential)},
		simhttp.Route{Operation: "identity.application_credential.delete", Method: http.MethodDelete, Pattern: credentialsPath + "/{credential}", Handler: s.authenticated(s.deleteCredential)},
	)
}

func (s *Server) serve(c *simhttp.Call) error {
	c.W.Header().Set("Vary", "X-Auth-Token")
	return c.Dispatch()
}

// authedHandler is a handler that needs to know who asks.
type authedHandler func(c *simhttp.Call, who session) error

// authenticated refuses calls without a valid X-Auth-Token.
func (s *Server) authenticated(next authedHandler) simhttp.Handler {
	return func(c *simhttp.Call) error {
		who, ok := s.lookup(c.Header.Get("X-Auth-Token"))
		if !ok {
			return unauthorized()
		}
		return next(c, who)
	}
}

// admins refuses calls of others than administrators.
func admins(policy string, next authedHandler) authedHandler {
	return func(c *simhttp.Call, who session) error {
		if err := requireAdmin(who, policy); err != nil {
			return err
		}
		return next(c, who)
	}
}

// requireAdmin returns an error of status 403 unless the caller is an administrator.
func requireAdmin(who session, policy string) error {
	if slices.Contains(who.roles, roleAdmin) {
		return nil
	}
	return forbidden(policy)
}
