package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// serviceFlags configure access to Cyborg, and how it reaches other services.
type serviceFlags struct {
	Auth           string      `enum:"none,keystone" default:"none" help:"Authentication: none trusts the identity in each request (token USER or USER:PROJECT, X-Roles); keystone validates the tokens of each request."`
	Cloud          string      `placeholder:"NAME" help:"Log in to this cloud of clouds.yaml, and find the services in its catalog. Default without --placement-url or with --auth keystone: OS_CLOUD, or the cloud of OS_AUTH_URL and the other variables."`
	PlacementURL   command.URL `name:"placement-url" placeholder:"URL" help:"Root of the Placement that devices are reported to; it must have the hosts as resource providers. Default: the cloud's."`
	PlacementToken string      `placeholder:"TOKEN" help:"Fixed X-Auth-Token for Placement. Default: a token of --cloud; without a cloud, admin."`
	ComputeURL     command.URL `name:"compute-url" placeholder:"URL" help:"Root of the compute API that events go to, such as http://HOST/compute/v2.1. Default: the cloud's; without one, events are not sent."`
	ComputeToken   string      `placeholder:"TOKEN" help:"Fixed X-Auth-Token for the compute API. Default: a token of --cloud; without a cloud, none."`
	ImageURL       command.URL `name:"image-url" placeholder:"URL" help:"Root of the image API that bitstreams are read from, such as http://HOST/image/v2. Default: the cloud's; without one, FPGAs cannot be programmed."`
	ImageToken     string      `placeholder:"TOKEN" help:"Fixed X-Auth-Token for the image API. Default: a token of --cloud; without a cloud, none."`
}

// services are the other services that Cyborg uses.
type services struct {
	flags serviceFlags
	cloud *session.Cloud // nil: no login
}

// services reads the cloud to log in to, and sends nothing.
func (f serviceFlags) services() (*services, error) {
	if f.Cloud == "" && f.PlacementURL != "" && f.Auth != "keystone" {
		return &services{flags: f}, nil
	}
	cloud, err := session.ReadCloud(f.Cloud)
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("--auth keystone and a Placement without --placement-url need a cloud to log in to: %w", err))
	}
	return &services{f, &cloud}, nil
}

// connect logs in, again and again while Keystone does not answer, and returns the options of a
// Cyborg for its services. Problem gets each reason to wait.
func (s *services) connect(ctx context.Context, log *slog.Logger, problem func(error)) ([]fakecyborg.Option, error) {
	if s.cloud == nil {
		return s.options(log, nil)
	}
	const firstPause, lastPause = time.Second, 16 * time.Second
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		l, err := logIn(ctx, *s.cloud)
		switch {
		case err == nil:
			return s.options(log, l)
		case !unanswered(err):
			return nil, command.BadInput(err)
		}
		problem(err)
		if err := (simhttp.Wall{}).Wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// unanswered reports whether a service could not be asked, so that it may be asked again.
func unanswered(err error) bool {
	var refused gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &refused) {
		return refused.Actual >= http.StatusInternalServerError || refused.Actual == http.StatusTooManyRequests
	}
	return isTransport(err)
}

// options are the options for the services, with a login if there is one.
func (s *services) options(log *slog.Logger, l *keystoneLogin) ([]fakecyborg.Option, error) {
	placement, err := l.endpoint("placement", s.flags.PlacementURL, cmp.Or(s.flags.PlacementToken, l.fallback("admin")))
	if err != nil {
		return nil, command.BadInput(err)
	}
	compute, err := l.endpoint("compute", s.flags.ComputeURL, s.flags.ComputeToken)
	if err != nil {
		return nil, command.BadInput(err)
	}
	image, err := l.endpoint("image", s.flags.ImageURL, s.flags.ImageToken)
	if err != nil {
		return nil, command.BadInput(err)
	}
	if placement.URL == "" {
		return nil, command.BadInput(errors.New("the catalog of the cloud has no placement; give --placement-url"))
	}
	image.Client.Timeout = 0 // the time of a bind limits it
	options := []fakecyborg.Option{fakecyborg.WithAgentLoop(), fakecyborg.WithPlacement(placement)}
	if compute.URL != "" {
		options = append(options, fakecyborg.WithNova(compute))
	}
	if image.URL != "" {
		options = append(options, fakecyborg.WithGlance(image))
	}
	log.Info("services", "placement", placement.URL, "compute", cmp.Or(compute.URL, "none"), "image", cmp.Or(image.URL, "none"))
	if s.flags.Auth == "keystone" {
		options = append(options, fakecyborg.WithTokenVerifier(&tokenVerifier{l.identity, log}))
	}
	return options, nil
}

// answerTimeout limits the time of a request to a service.
const answerTimeout = time.Minute

// keystoneLogin is a cloud with a token, which is renewed when a service refuses it.
type keystoneLogin struct {
	provider  *gophercloud.ProviderClient
	identity  *gophercloud.ServiceClient
	opts      gophercloud.EndpointOpts
	transport http.RoundTripper // without a limit for the length of answers
}

func logIn(ctx context.Context, cloud session.Cloud) (*keystoneLogin, error) {
	l := &keystoneLogin{opts: cloud.Endpoint}
	var err error
	l.provider, err = cloud.LogIn(ctx, func(c *http.Client) {
		c.Timeout = answerTimeout
		l.transport = c.Transport
	})
	if err != nil {
		return nil, err
	}
	if l.identity, err = openstack.NewIdentityV3(l.provider, gophercloud.EndpointOpts{}); err != nil {
		return nil, err
	}
	return l, nil
}

// fallback is a token for a service without a login.
func (l *keystoneLogin) fallback(token string) string {
	if l != nil {
		return ""
	}
	return token
}

// newEndpoint is the service at a URL, without token if that is empty.
func newEndpoint(url command.URL, token string) (sim.Endpoint, error) {
	transport, err := session.Transport(string(url))
	endpoint := sim.Endpoint{URL: string(url), Client: &http.Client{Transport: transport, Timeout: answerTimeout}}
	if token != "" {
		endpoint.Token = func(context.Context) (string, error) { return token, nil }
	}
	return endpoint, err
}

// endpoint is a service at a URL, or else at its URL in the catalog; the URL is empty if neither
// is known. A fixed token takes precedence over the token of the login.
func (l *keystoneLogin) endpoint(service string, at command.URL, token string) (sim.Endpoint, error) {
	endpoint, err := newEndpoint(at, token)
	if err != nil {
		return endpoint, err
	}
	if l != nil {
		endpoint.Client.Transport = l.transport // which knows the cloud's certificate
	}
	if l != nil && endpoint.URL == "" {
		opts := l.opts
		opts.ApplyDefaults(service)
		url, err := l.provider.EndpointLocator(opts)
		switch {
		case errors.As(err, new(*gophercloud.ErrEndpointNotFound)):
			return endpoint, nil
		case err != nil:
			return endpoint, fmt.Errorf("%s: find its endpoint: %w", service, err)
		}
		endpoint.URL = strings.TrimSuffix(url, "/")
		if service == "image" && !strings.HasSuffix(endpoint.URL, "/v2") {
			endpoint.URL += "/v2"
		}
	}
	if l != nil && token == "" {
		provider, err := session.Provider(session.Tokens{User: l.provider}, endpoint.URL, l.transport)
		if err != nil {
			return endpoint, fmt.Errorf("%s: %w", service, err)
		}
		endpoint.Client = &provider.HTTPClient
	}
	return endpoint, nil
}

// tokenVerifier asks Keystone about every token, so that one that was revoked is refused at once.
type tokenVerifier struct {
	identity *gophercloud.ServiceClient
	log      *slog.Logger
}

var _ sim.TokenVerifier = (*tokenVerifier)(nil)

// AuthURI is the address of Keystone, which Cyborg names in its refusals.
func (v *tokenVerifier) AuthURI() string { return strings.TrimSuffix(v.identity.Endpoint, "v3/") }

// VerifyToken implements sim.TokenVerifier.
func (v *tokenVerifier) VerifyToken(token string) (http.Header, error) {
	id, err := v.Identify(token)
	return id.Headers(), err
}

// Identify is VerifyToken for the services of this module.
func (v *tokenVerifier) Identify(token string) (simhttp.Identity, error) {
	return v.ask(token, "?nocatalog")
}

// IdentifyExpired is Identify, and takes a token that expired not long ago.
func (v *tokenVerifier) IdentifyExpired(token string) (simhttp.Identity, error) {
	return v.ask(token, "?nocatalog&allow_expired=1")
}

// ask asks Keystone, which answers 404 for a token that is not valid, and for one with access rules unless the request says that
// they are enforced. Any other refusal is not the caller's: the answer is 503, as keystonemiddleware gives it.
func (v *tokenVerifier) ask(token, query string) (simhttp.Identity, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	var body struct{ Token keystoneToken }
	_, err := v.identity.Get(ctx, v.identity.ServiceURL("auth", "tokens")+query, &body, &gophercloud.RequestOpts{
		MoreHeaders: map[string]string{"X-Subject-Token": token, "OpenStack-Identity-Access-Rules": "1"}, OkCodes: []int{http.StatusOK, http.StatusNonAuthoritativeInfo},
	})
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return simhttp.Identity{}, errors.New("the token is not valid")
	case err != nil:
		sent := session.Outcome{Sent: []string{token, v.identity.Token()}}
		v.log.Error("the token of a request cannot be validated", "keystone", v.identity.Endpoint, "error", sent.Redacted(err))
		return simhttp.Identity{}, simhttp.Refuse(http.StatusServiceUnavailable, "The Keystone service is temporarily unavailable.")
	}
	return body.Token.owner(), nil
}

// keystoneToken is Keystone's answer about a token.
type keystoneToken struct {
	User       tokens.User    `json:"user"`
	Roles      []tokens.Role  `json:"roles"`
	Project    tokens.Project `json:"project"`
	Domain     tokens.Domain  `json:"domain"`
	System     struct{ All bool }
	Credential struct {
		Rules []simhttp.AccessRule `json:"access_rules"`
	} `json:"application_credential"`
}

func (t keystoneToken) owner() simhttp.Identity {
	id := simhttp.Identity{
		User: t.User.ID, Project: t.Project.ID, Domain: t.Domain.ID, SystemScope: t.System.All, AccessRules: t.Credential.Rules,
	}
	for _, role := range t.Roles {
		id.Roles = append(id.Roles, role.Name)
	}
	return id
}
