package cyborgclient

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// Option changes how a Client is made.
type Option func(*settings)

// settings is what the options say.
type settings struct {
	serviceToken func(context.Context) (string, error)
	observer     func(Call)
	logger       *slog.Logger
	retry        RetryOpts
	transport    http.RoundTripper
	token        string
	region       string
	availability gophercloud.Availability
}

func newSettings(opts []Option) settings {
	var s settings
	for _, apply := range opts {
		apply(&s)
	}
	return s
}

// WithServiceToken sends X-Service-Token with every call. Cyborg of 2026 and
// later demands one, of a user with the service role, for bind, unbind, delete
// by instance and delete of an ARQ that has an instance; older ones ignore it.
//
// token is asked before each call and must be safe for concurrent use; with
// gophercloud it is usually
//
//	func(context.Context) (string, error) { return serviceProvider.Token(), nil }
//
// An error of it ends the call before anything is sent, with ErrUnauthorized.
func WithServiceToken(token func(context.Context) (string, error)) Option {
	return func(s *settings) { s.serviceToken = token }
}

// WithObserver has observe told about every call that was begun, once, when it
// has ended; retries are inside a call. Requests refused before anything could
// be sent (ErrInvalid, ErrMicroversion) are no calls. observe runs on the
// caller's goroutine and must be safe for concurrent use.
func WithObserver(observe func(Call)) Option { return func(s *settings) { s.observer = observe } }

// WithLogger logs every attempt and retry at debug level, and every failed
// connection at error level. Without it, or with nil, nothing is logged.
func WithLogger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// WithRetry replaces the retry policy; see RetryOpts.
func WithRetry(opts RetryOpts) Option { return func(s *settings) { s.retry = opts } }

// WithTransport sends the requests through transport: a tracing one, or one
// that calls a handler in the same process. Retries happen above it, so it
// sees each attempt. It takes the place of the provider's transport; with
// NewFromCloud it also carries the authentication, and the certificates that
// clouds.yaml names are then its own business.
func WithTransport(transport http.RoundTripper) Option {
	return func(s *settings) { s.transport = transport }
}

// WithToken sends a fixed X-Auth-Token. Only NewWithEndpoint uses it; the
// other constructors have a provider that holds the token.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithRegion picks the endpoint of that region. Without it, or with "", it is
// the first of the catalog, or the region that clouds.yaml names.
func WithRegion(region string) Option { return func(s *settings) { s.region = region } }

// WithAvailability picks the public (the default), internal or admin
// interface.
func WithAvailability(availability gophercloud.Availability) Option {
	return func(s *settings) { s.availability = availability }
}
