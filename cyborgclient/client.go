package cyborgclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

// serviceType is Cyborg's type in the service catalog.
const serviceType = "accelerator"

const headerServiceToken = "X-Service-Token"

// errSameToken ends a reauthentication that brought no new token.
var errSameToken = errors.New("the token was refused and reauthentication returned the same one")

// Client talks to one Cyborg. It is safe for concurrent use. The zero value is
// not usable; see New, NewFromCloud and NewWithEndpoint.
type Client struct {
	service      *gophercloud.ServiceClient
	serviceToken func(context.Context) (string, error)
	maxMinor     atomic.Int32 // highest minor version of the server, plus one; 0: unknown
}

// New makes a Client from an authenticated provider. The endpoint is the one
// of type "accelerator" in its catalog (public interface, any region, unless
// WithEndpointOpts says otherwise); an endpoint without a version gets /v2
// appended.
//
// The given provider is not changed. The Client has a provider of its own for
// retries, WithTransport and the redirect policy. It copies its token from the
// given provider and reauthenticates through it, so both always hold the same
// token. RetryFunc and RetryBackoffFunc of the given provider are not used,
// because they would retry POST and PATCH too. The timeout of its HTTPClient
// bounds each call together with its retries.
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
	return newClient(provider, raw, settings)
}

// NewFromCloud authenticates with the named cloud of clouds.yaml and makes a
// Client for it. The file is searched for as openstackclient does:
// OS_CLIENT_CONFIG_FILE, the working directory, the user's and the system's
// configuration directory.
// An empty name means OS_CLOUD. The token is renewed when it expires.
func NewFromCloud(ctx context.Context, cloud string, opts ...Option) (*Client, error) {
	settings := newSettings(opts)
	var parse []clouds.ParseOption
	if cloud != "" {
		parse = append(parse, clouds.WithCloudName(cloud))
	}
	auth, location, tlsConfig, err := clouds.Parse(parse...)
	if err != nil {
		return nil, fmt.Errorf("cyborgclient: read cloud %q from clouds.yaml: %w", cloud, err)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(cloudHTTPClient(settings.transport, tlsConfig)))
	if err != nil {
		return nil, fmt.Errorf("cyborgclient: authenticate with cloud %q: %w", cloud, err)
	}
	// The region and interface of clouds.yaml come first, so that options override them.
	return New(provider, append([]Option{WithEndpointOpts(location)}, opts...)...)
}

// cloudHTTPClient is also used to authenticate. A transport given by the caller
// is responsible for TLS itself.
func cloudHTTPClient(transport http.RoundTripper, tlsConfig *tls.Config) http.Client {
	if transport != nil || tlsConfig == nil {
		return http.Client{Transport: transport}
	}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		own := standard.Clone()
		own.TLSClientConfig = tlsConfig
		return http.Client{Transport: own}
	}
	return http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig}}
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
	provider.SetToken(token)
	return newClient(provider, endpoint, settings)
}

// newClient assembles a Client around the token of provider.
func newClient(provider *gophercloud.ProviderClient, endpoint string, settings settings) (*Client, error) {
	base, err := normalEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	own := ownProvider(provider, settings)
	return &Client{
		service:      &gophercloud.ServiceClient{ProviderClient: own, Endpoint: base, Type: serviceType},
		serviceToken: settings.serviceToken,
	}, nil
}

// ownProvider makes the provider whose transport retries. Its token is a copy
// of the given provider's; when it is refused, the given provider
// reauthenticates unless it has done so already, and the copy is renewed. Only
// ReauthFunc writes the copy, and gophercloud runs one ReauthFunc at a time.
func ownProvider(provider *gophercloud.ProviderClient, settings settings) *gophercloud.ProviderClient {
	own := &gophercloud.ProviderClient{
		IdentityBase: provider.IdentityBase, IdentityEndpoint: provider.IdentityEndpoint,
		EndpointLocator: provider.EndpointLocator, UserAgent: provider.UserAgent,
		HTTPClient: provider.HTTPClient,
	}
	own.UseTokenLock()
	own.CopyTokenFrom(provider)
	own.HTTPClient.Transport = newTransport(provider.HTTPClient.Transport, settings)
	if own.HTTPClient.CheckRedirect == nil {
		own.HTTPClient.CheckRedirect = sameServer
	}
	own.ReauthFunc = func(ctx context.Context) error {
		refused := own.Token()
		if err := provider.Reauthenticate(ctx, refused); err != nil {
			return err
		}
		if provider.Token() == refused {
			return errSameToken
		}
		own.CopyTokenFrom(provider)
		return nil
	}
	return own
}

// newTransport puts retries over buffering over the caller's transport.
func newTransport(base http.RoundTripper, settings settings) http.RoundTripper {
	if settings.transport != nil {
		base = settings.transport
	}
	if base == nil {
		base = http.DefaultTransport
	}
	return newRetry(&bufferTransport{base}, settings.retry, settings.logger)
}

// Service returns a gophercloud client of the same endpoint, for requests that
// this package has no method for. They are retried as the methods are, but have
// no X-Service-Token, no microversion header (2.0 then) and no observer.
// Answers are limited to 32 MiB. Each call returns a copy, which the caller may
// change.
func (c *Client) Service() *gophercloud.ServiceClient {
	service := *c.service
	return &service
}
