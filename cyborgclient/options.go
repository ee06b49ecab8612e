package cyborgclient

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// Option changes how a Client is made.
type Option func(*settings)

type settings struct {
	serviceToken func(context.Context) (string, error)
	logger       *slog.Logger
	retry        RetryOpts
	transport    http.RoundTripper
	endpoint     gophercloud.EndpointOpts // Region and Availability only
}

func newSettings(opts []Option) settings {
	var s settings
	for _, apply := range opts {
		apply(&s)
	}
	return s
}

// WithServiceToken sends X-Service-Token with every call. Cyborg of 2026 and
// later requires the token of a user with the service role for bind, unbind,
// delete by instance and delete of an ARQ that has an instance; older releases
// ignore it.
//
// token is called before each request and must be safe for concurrent use; with
// gophercloud it is usually
//
//	func(context.Context) (string, error) { return serviceProvider.Token(), nil }
//
// If it fails, the call is not sent and returns ErrUnauthorized.
func WithServiceToken(token func(context.Context) (string, error)) Option {
	return func(s *settings) { s.serviceToken = token }
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
