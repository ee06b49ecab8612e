package keystone

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Password is the password of users without their own.
const Password = "secret"

// DefaultTokenLifetime is how long a token is valid unless Config says otherwise; it
// is the default of Keystone's option [token] expiration.
const DefaultTokenLifetime = time.Hour

// Config is the configuration of a Server. The zero value is a cloud that has only the
// identity service in its catalog.
type Config struct {
	// Seed determines identifiers and tokens.
	Seed uint64
	// Collation is how names and identifiers compare; mysql if empty.
	Collation sim.Collation
	// Region is the region of every endpoint; RegionOne if empty.
	Region string
	// TokenLifetime is how long a token is valid; DefaultTokenLifetime if zero.
	TokenLifetime time.Duration
	// MaxTokens is the maximum number of valid tokens. Above it the oldest tokens are revoked.
	// Zero means no limit.
	MaxTokens int
	// Users are added to admin, demo, nova and cyborg, or replace the user of the same name.
	Users []User
	// Services are the catalog's entries except identity itself.
	Services []CatalogEntry
	// Clock is the clock for the expiry of tokens; the machine's clock if nil.
	Clock sim.Clock
	// Faults are the rules that act on requests; nil means no rules.
	Faults *fault.Set
}

// key compares names and identifiers.
func (c Config) key() collation.Key { return collation.Of(cmp.Or(c.Collation, sim.CollationMySQL)) }

// CatalogEntry is a service in the catalog.
type CatalogEntry struct {
	// Type and Name are as in a catalog: "accelerator", "cyborg".
	Type, Name string
	// Path is the path of the service on the host that a client talks to:
	// "/accelerator/v2".
	Path string
	// URL is the URL of an external service; Path is then ignored.
	URL string
}

// Server is the identity service. It is an http.Handler for /identity, /identity/v3,
// /v3 and the version list at /, and safe for parallel use.
type Server struct {
	*simhttp.Service
	cfg       Config
	directory directory
	state     state
	sweepAt   int // tokens; changed in transactions only
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
	cfg.Clock = cmp.Or[sim.Clock](cfg.Clock, simhttp.Wall{})
	cfg.Services = append([]CatalogEntry{{Type: "identity", Name: "keystone", Path: "/identity/v3"}}, cfg.Services...)
	s := &Server{cfg: cfg, directory: newDirectory(cfg.Seed, cfg.key(), cfg.Users)}
	s.state = newState(&s.directory)
	s.Service = &simhttp.Service{
		Name:       "identity",
		Prefixes:   []string{"/identity"},
		Canonical:  s.canonicalPath,
		Router:     simhttp.NewRouter(s.routes()...),
		Handler:    s.serve,
		WriteError: writeError,
		Clock:      cfg.Clock,
		Faults:     cfg.Faults,
		IDs:        simhttp.NewIDs(cfg.Seed, "identity"),
	}
	s.Service.Verifier = s
	return s
}

func (s *Server) routes() []simhttp.Route {
	return append(s.reads(),
		simhttp.Route{
			Operation: fault.TokenCreate, Method: http.MethodPost, Pattern: tokensPath, Handler: s.createToken,
			Input: simhttp.Input{Query: []string{"nocatalog"}, Body: authPaths()},
		},
		simhttp.Route{
			Operation: fault.TokenRevoke, Method: http.MethodDelete, Pattern: tokensPath, Handler: s.authenticated(s.revokeToken),
		},
		simhttp.Route{
			Operation: fault.ApplicationCredentialCreate, Method: http.MethodPost, Pattern: credentialsPath,
			Handler: s.createCredential, Input: simhttp.Input{Body: newCredentialPaths()},
		},
		simhttp.Route{
			Operation: fault.ApplicationCredentialDelete, Method: http.MethodDelete, Pattern: credentialPath,
			Handler: s.authenticated(s.deleteCredential),
		},
		simhttp.Route{
			Operation: fault.AccessRuleDelete, Method: http.MethodDelete, Pattern: accessRulePath, Handler: s.authenticated(s.deleteRule),
		},
	)
}

// reads are the routes of GET and HEAD.
func (s *Server) reads() (routes []simhttp.Route) {
	open := func(operation sim.OperationName, pattern string, handler simhttp.Handler, query ...string) {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			routes = append(routes, simhttp.Route{
				Operation: operation, Method: method, Pattern: pattern, Handler: handler, Input: simhttp.Input{Query: query},
			})
		}
	}
	get := func(operation sim.OperationName, pattern string, handler authedHandler, query ...string) {
		open(operation, pattern, s.authenticated(handler), query...)
	}
	open(fault.IdentityVersionsList, "", s.listVersions)
	open(fault.IdentityVersionGet, "/v3", s.getVersion)
	get(fault.TokenValidate, tokensPath, s.validateToken, "nocatalog")
	get(fault.AuthCatalog, "/v3/auth/catalog", s.authCatalog)
	get(fault.AuthProjects, "/v3/auth/projects", s.authProjects)
	get(fault.AuthDomains, "/v3/auth/domains", authDomains)
	get(fault.AuthSystem, "/v3/auth/system", authSystem)
	get(fault.LimitModelGet, "/v3/limits/model", limitModel) // before /v3/limits/{id}
	for _, r := range s.resources() {
		get(r.lists, "/v3/"+r.names, r.list, r.filters.keys()...)
		get(r.gets, "/v3/"+r.names+"/{id}", r.get)
	}
	get(fault.UserProjects, "/v3/users/{id}/projects", s.userProjects, userProjectFilters.keys()...)
	get(fault.UserGroups, "/v3/users/{id}/groups", s.userGroups)
	get(fault.GrantList, grantsPath, s.listGrants)
	get(fault.GrantCheck, grantPath, s.checkGrant)
	get(fault.RoleAssignmentList, "/v3/role_assignments", s.listAssignments, roleAssignmentKeys...)
	get(fault.ApplicationCredentialList, credentialsPath, s.listCredentials, credentialFilters.keys()...)
	get(fault.ApplicationCredentialGet, credentialPath, s.getCredential)
	get(fault.AccessRuleList, accessRulesPath, s.listRules, accessRuleFilters.keys()...)
	get(fault.AccessRuleGet, accessRulePath, s.getRule)
	return routes
}

func (s *Server) serve(c *simhttp.Call) error {
	if len(c.Allowed) > 0 {
		c.Allowed = append(c.Allowed, http.MethodOptions)
		slices.Sort(c.Allowed)
	}
	c.W.Header().Set("Vary", "X-Auth-Token")
	switch {
	case c.Method == http.MethodOptions:
		return answerOptions(c)
	case s.redirectMerged(c):
		return nil
	}
	if err := checkBody(c); err != nil {
		return err
	}
	return c.Dispatch()
}

// answerOptions answers any path, without a token.
func answerOptions(c *simhttp.Call) error {
	if len(c.Allowed) > 0 {
		c.W.Header().Set("Allow", strings.Join(c.Allowed, ", "))
		c.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	return c.Empty(http.StatusOK)
}

// checkBody refuses a body that is not a JSON object, on every route
// (keystone/server/flask/request_processing/json_body.py).
func checkBody(c *simhttp.Call) error {
	data, err := simhttp.ReadBody(c.Request)
	switch {
	case errors.Is(err, simhttp.ErrBodyTooLarge):
		return simhttp.Refuse(http.StatusRequestEntityTooLarge, "Request is too large.")
	case err != nil:
		return simhttp.Refuse(http.StatusBadRequest, "The request body could not be read.")
	case len(data) == 0:
		return nil
	}
	c.Request.Body = simhttp.Received(data, c.Request.Body)
	kind, _, _ := strings.Cut(strings.ToLower(c.Header.Get("Content-Type")), ";")
	kind = strings.TrimSpace(kind)
	if kind != "" && kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return malformed("application/json", "Content-Type header")
	}
	value, err := schema.Decode(data)
	if _, isObject := value.(*schema.Object); err != nil || !isObject {
		return malformed("valid JSON", "request body")
	}
	return nil
}

// authedHandler is a handler that needs the session of the caller.
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

// readsAll reports whether the caller may read the resources of other users: an administrator or
// a reader of the system may.
func (who session) readsAll() bool { return who.has(roleAdmin) || who.System && who.has(roleReader) }

// requireReader returns an error of status 403 unless the caller reads all.
func requireReader(who session, action string) error {
	if who.readsAll() {
		return nil
	}
	return forbidden(action)
}
