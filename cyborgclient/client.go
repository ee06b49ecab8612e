package cyborgclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
)

// serviceType is Cyborg's type in the service catalog.
const serviceType = "accelerator"

// Client talks to one Cyborg. It is safe for concurrent use. The zero value is
// not usable; see New, NewFromCloud and NewWithEndpoint.
type Client struct {
	service  *gophercloud.ServiceClient
	user     *gophercloud.ProviderClient // the requests carry its token
	settings settings
	*server
}

// server holds properties of a Cyborg, learned from its answers. Clients of the same Cyborg share it.
type server struct {
	maxMinor atomic.Int32 // highest minor version of the server, plus one; 0: unknown
	form     atomic.Int32 // the headerForm that the server read last
}

// New makes a Client from an authenticated provider. The endpoint has the type "accelerator" in
// its catalog (public interface, any region, unless WithEndpointOpts says otherwise); an endpoint
// without a version gets /v2 appended.
//
// The given provider is not changed. Requests carry its current token; after a
// 401 it reauthenticates, and the request is repeated once: Cyborg answers 401
// before it does anything, so this holds for POST and PATCH too. RetryFunc and
// RetryBackoffFunc of the given provider are not used, because they would retry
// POST and PATCH too. The timeout of its HTTPClient bounds each call together
// with its retries. A redirect to another scheme, host or port is never followed, even if the
// HTTPClient would.
func New(provider *gophercloud.ProviderClient, opts ...Option) (*Client, error) {
	if provider == nil {
		return nil, fmt.Errorf("cyborgclient: new client: %w: no provider", ErrInvalid)
	}
	settings := newSettings(opts)
	if provider.EndpointLocator == nil {
		return nil, fmt.Errorf("cyborgclient: new client: %w: the provider has no service catalog", ErrInvalid)
	}
	location := gophercloud.EndpointOpts{Region: settings.endpoint.Region, Availability: settings.endpoint.Availability}
	location.ApplyDefaults(serviceType)
	raw, err := provider.EndpointLocator(location)
	if err != nil {
		return nil, fmt.Errorf("cyborgclient: find the %s endpoint (%s, region %q) in the catalog: %w",
			serviceType, location.Availability, location.Region, err)
	}
	return newClient(provider, raw, settings, new(server))
}

// NewFromCloud authenticates with the named cloud of clouds.yaml and makes a
// Client for it. The file is searched for as openstackclient does:
// OS_CLIENT_CONFIG_FILE, the working directory, the user's and the system's
// configuration directory. secure.yaml is merged into it. It is searched for in
// OS_CLIENT_SECURE_FILE, the directory of OS_CLIENT_CONFIG_FILE, which openstackclient does not
// search, and the same directories. A file named by a variable must exist. An empty name means
// OS_CLOUD or, without it, the cloud of OS_AUTH_URL, OS_USERNAME and so on. The token is renewed
// when it expires. A login that Keystone refuses matches ErrUnauthorized.
func NewFromCloud(ctx context.Context, cloud string, opts ...Option) (*Client, error) {
	settings := newSettings(opts)
	found, err := session.ReadCloud(cloud)
	if err != nil {
		return nil, fmt.Errorf("cyborgclient: new client: %w", err)
	}
	provider, err := found.LogIn(ctx, func(client *http.Client) {
		if settings.transport != nil {
			client.Transport = settings.transport
		}
	})
	if errors.Is(err, session.ErrUnauthorized) {
		err = refusedLogin{err}
	}
	if err != nil {
		return nil, fmt.Errorf("cyborgclient: new client: %w", err)
	}
	// The region and interface of clouds.yaml come first, so that options override them.
	return New(provider, append([]Option{WithEndpointOpts(found.Endpoint)}, opts...)...)
}

// NewWithEndpoint makes a Client for the Cyborg at endpoint, such as
// "http://127.0.0.1:6666/v2", without a catalog, and sends a fixed token, or
// none if it is empty. An endpoint without a version gets /v2 appended.
func NewWithEndpoint(endpoint, token string, opts ...Option) (*Client, error) {
	settings := newSettings(opts)
	provider, err := openstack.NewClient(endpoint)
	if err != nil {
		return nil, fmt.Errorf("cyborgclient: new client: %w: the endpoint is not a URL", ErrInvalid)
	}
	provider.IdentityBase, provider.IdentityEndpoint = "", "" // the endpoint does not belong to a Keystone
	provider.SetToken(token)
	return newClient(provider, endpoint, settings, new(server))
}

// newClient assembles a Client around the tokens of provider.
func newClient(provider *gophercloud.ProviderClient, endpoint string, settings settings, known *server) (*Client, error) {
	base, err := normalEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if settings.withService && settings.service == nil {
		return nil, fmt.Errorf("cyborgclient: new client: %w: the service provider is nil", ErrInvalid)
	}
	tokens := session.Tokens{User: provider, Service: settings.service}
	own, err := session.Provider(tokens, base, newTransport(provider.HTTPClient.Transport, settings))
	if err != nil {
		return nil, fmt.Errorf("cyborgclient: new client: %w: %w", ErrInvalid, err)
	}
	return &Client{
		service:  &gophercloud.ServiceClient{ProviderClient: own, Endpoint: base, Type: serviceType},
		user:     provider,
		settings: settings,
		server:   known,
	}, nil
}

// newTransport puts retries over buffering over the caller's transport.
func newTransport(base http.RoundTripper, settings settings) http.RoundTripper {
	if settings.transport != nil {
		base = settings.transport
	}
	buffer := &bufferTransport{httpbounds.Transport(base, httpbounds.AnswerLimit)}
	return session.Retry(settings.retry).Transport(buffer, settings.logger)
}

// Service returns a gophercloud client of the same endpoint, for requests that
// this package has no method for. They have the tokens, the limits and the retries
// of the methods, but no microversion header (2.0 then) and no observer. The
// tokens are set below gophercloud: Token of the client is empty. Each call returns
// a copy, which the caller may change.
func (c *Client) Service() *gophercloud.ServiceClient {
	service := *c.service
	return &service
}
