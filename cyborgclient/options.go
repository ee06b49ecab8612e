package cyborgclient

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/session"
)

// Option configures a Client.
type Option func(*settings)

type settings struct {
	service     *gophercloud.ProviderClient // of X-Service-Token
	withService bool
	logger      *slog.Logger
	retry       RetryOpts
	transport   http.RoundTripper
	endpoint    gophercloud.EndpointOpts // Region and Availability only
}

func newSettings(opts []Option) settings {
	var s settings
	for _, apply := range opts {
		apply(&s)
	}
	return s
}

// WithGlobalRequestID returns a context whose requests carry an ID in the header X-Openstack-Request-Id,
// "req-" and a UUID in lower case, which correlates the logs of the services. An ID in another
// form is not sent; OpenStack's services would ignore it. Nova sends the ID of the API request.
func WithGlobalRequestID(ctx context.Context, id string) context.Context {
	return session.WithRequestID(ctx, id)
}

// WithoutServiceToken returns a context whose requests carry no X-Service-Token. A
// Cyborg of 2026 and later then refuses to delete an ARQ that has an instance.
func WithoutServiceToken(ctx context.Context) context.Context { return session.WithoutService(ctx) }

// WithServiceProvider sends the token of service as X-Service-Token with every
// call. Its user needs the role service. Cyborg of 2026 and later requires the
// header for bind, unbind, delete by instance and delete of an ARQ that has an
// instance; older releases ignore it.
//
// A 401 does not say which token was refused. Both providers then reauthenticate,
// and the request is repeated once with both new tokens; so service should be able
// to (gophercloud.AuthOptions.AllowReauth, or a ReauthFunc). If service has no token, it
// authenticates before the first request. It is not changed otherwise. If it still has no token,
// the call is not sent and returns ErrUnauthorized.
func WithServiceProvider(service *gophercloud.ProviderClient) Option {
	return func(s *settings) { s.service, s.withService = service, true }
}

// WithLogger logs every attempt and retry at debug level, and every failed
// connection at error level. Without it, or with nil, nothing is logged.
func WithLogger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// WithRetry replaces the retry policy; see RetryOpts.
func WithRetry(opts RetryOpts) Option { return func(s *settings) { s.retry = opts } }

// WithTransport sends the requests through transport, for tracing or to call a
// handler in the same process. It sees each retry. It replaces the provider's
// transport; with NewFromCloud it also carries the authentication, and has to
// load the certificates of clouds.yaml itself.
func WithTransport(transport http.RoundTripper) Option {
	return func(s *settings) { s.transport = transport }
}

// WithEndpointOpts selects the region and the interface (Availability) of the
// endpoint in the catalog. Empty fields keep the default: the public interface
// and the first region of the catalog, or those of clouds.yaml.
func WithEndpointOpts(opts gophercloud.EndpointOpts) Option {
	return func(s *settings) {
		s.endpoint.Region = cmp.Or(opts.Region, s.endpoint.Region)
		s.endpoint.Availability = cmp.Or(opts.Availability, s.endpoint.Availability)
	}
}
