package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

const (
	headerUser      = "X-Auth-Token"
	headerService   = "X-Service-Token"
	headerRequestID = "X-Openstack-Request-Id"
)

// ErrNoToken: a request was not sent because a provider has no usable token.
var ErrNoToken = errors.New("no token")

// errSameToken ends a renewal that brought no other token.
var errSameToken = errors.New("the token was refused and reauthentication returned the same one")

// Tokens are the providers whose tokens a request carries.
type Tokens struct {
	User    *gophercloud.ProviderClient
	Service *gophercloud.ProviderClient // of X-Service-Token; nil for none
}

// Provider returns a provider for requests to the server of endpoint. They are sent
// through transport, with the current tokens. After a 401, which services answer
// before they do anything, both tokens are renewed and the request is repeated once, with any
// method. Redirects to other servers are not followed. The timeout of the user's HTTP client
// applies. The given providers are not changed.
func Provider(tokens Tokens, endpoint string, transport http.RoundTripper) (*gophercloud.ProviderClient, error) {
	server, err := url.Parse(endpoint)
	if err != nil {
		return nil, errors.New("the endpoint is not a URL")
	}
	user := tokens.User
	own := &gophercloud.ProviderClient{
		IdentityBase: user.IdentityBase, IdentityEndpoint: user.IdentityEndpoint,
		EndpointLocator: user.EndpointLocator, UserAgent: user.UserAgent, HTTPClient: user.HTTPClient,
	}
	own.UseTokenLock()
	own.HTTPClient.CheckRedirect = httpbounds.CheckRedirect
	own.HTTPClient.Transport = &authTransport{tokens: tokens, server: server, next: transport}
	return own, nil
}

// Service returns a copy of a client of one service whose provider is that of Provider,
// with bounded answers and the retries of Retry. What the given provider does to retry is kept for
// reads: a write that is sent again meets what the first one has changed, which hides that it was applied.
func Service(client *gophercloud.ServiceClient) (*gophercloud.ServiceClient, error) {
	given := client.ProviderClient
	bounded := httpbounds.Transport(given.HTTPClient.Transport, httpbounds.AnswerLimit)
	provider, err := Provider(Tokens{User: given}, client.ResourceBaseURL(), Retry{}.Transport(bounded, nil))
	if err != nil {
		return nil, err
	}
	provider.RetryFunc, provider.RetryBackoffFunc, provider.MaxBackoffRetries = forReads(given.RetryFunc), backoffOfReads(given.RetryBackoffFunc), given.MaxBackoffRetries
	own := *client
	own.ProviderClient = provider
	return &own, nil
}

// forReads retries reads only.
func forReads(retry gophercloud.RetryFunc) gophercloud.RetryFunc {
	if retry == nil {
		return nil
	}
	return func(ctx context.Context, method, url string, options *gophercloud.RequestOpts, err error, failCount uint) error {
		if method != http.MethodGet {
			return err
		}
		return retry(ctx, method, url, options, err, failCount)
	}
}

// backoffOfReads retries reads only. gophercloud calls it for a 429 to any request.
func backoffOfReads(backoff gophercloud.RetryBackoffFunc) gophercloud.RetryBackoffFunc {
	if backoff == nil {
		return nil
	}
	return func(ctx context.Context, answer *gophercloud.ErrUnexpectedResponseCode, err error, failCount uint) error {
		if answer.Method != http.MethodGet {
			return *answer
		}
		return backoff(ctx, answer, err, failCount)
	}
}

// Outcome records the tokens and attempts of one call. One goroutine at a time uses it:
// http.Client runs transports on the caller's.
type Outcome struct {
	Sent []string // every token that was sent, to be removed from messages
	Err  error    // why they could not be renewed after a 401

	Attempts int    // requests sent, if the transport below counts them
	Answer   []byte // body of the last answer, if the transport below keeps it
	// Uncertain: an attempt that was repeated has an unknown outcome. A 404 to the last attempt of a DELETE
	// then means that the resource no longer exists.
	Uncertain bool
}

type outcomeKey struct{}

// Watch returns a context whose requests are recorded in the outcome.
func Watch(ctx context.Context) (context.Context, *Outcome) {
	outcome := new(Outcome)
	return context.WithValue(ctx, outcomeKey{}, outcome), outcome
}

// OutcomeOf returns the outcome of a context, a new one if it is not watched.
func OutcomeOf(ctx context.Context) *Outcome {
	if outcome, ok := ctx.Value(outcomeKey{}).(*Outcome); ok {
		return outcome
	}
	return new(Outcome)
}

// authTransport sets the tokens of requests to one server.
type authTransport struct {
	tokens Tokens
	server *url.URL
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *authTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	outcome := OutcomeOf(ctx)
	if !httpbounds.SameServer(req.URL, t.server) {
		return t.next.RoundTrip(pair{}.on(req))
	}
	tokens, err := t.tokens.current(ctx)
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	outcome.Sent = append(outcome.Sent, tokens.user, tokens.service)
	resp, err := t.next.RoundTrip(tokens.on(req))
	if err != nil || resp == nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	renewed, err := t.tokens.renewed(ctx, tokens)
	if err != nil {
		outcome.Err = err
		return resp, nil
	}
	again, ok := repeated(req)
	if renewed == tokens || !ok {
		return resp, nil
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	outcome.Sent = append(outcome.Sent, renewed.user, renewed.service)
	return t.next.RoundTrip(renewed.on(again))
}

// repeated returns the request with its body from the start, or false if the body cannot be read again.
func repeated(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again := *req
	again.Body = body
	return &again, true
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
}

type withoutServiceKey struct{}

// WithoutService returns a context whose requests carry the user's token only.
func WithoutService(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutServiceKey{}, true)
}

type requestIDKey struct{}

// WithRequestID returns a context whose requests carry a global request ID.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the global request ID of a context, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// pair is the tokens of a request; "" for none.
type pair struct{ user, service string }

// on returns the request with these tokens and no others.
func (p pair) on(req *http.Request) *http.Request {
	out := *req // a transport leaves its request as it is
	out.Header = req.Header.Clone()
	if req.Context().Value(withoutServiceKey{}) != nil {
		p.service = ""
	}
	setToken(out.Header, headerUser, p.user)
	setToken(out.Header, headerService, p.service)
	if id := RequestID(req.Context()); uuids.IsRequestID(id) {
		out.Header.Set(headerRequestID, id)
	}
	return &out
}

func setToken(header http.Header, name, token string) {
	if token == "" {
		header.Del(name)
		return
	}
	header.Set(name, token)
}

// current returns the tokens that the providers have now.
func (t Tokens) current(ctx context.Context) (pair, error) {
	user, err := currentToken(ctx, t.User)
	if err != nil {
		return pair{}, err
	}
	if t.Service == nil {
		return pair{user: user}, nil
	}
	service, err := currentToken(ctx, t.Service)
	if err == nil && service == "" {
		err = fmt.Errorf("%w: the provider has none and cannot authenticate", ErrNoToken)
	}
	if err != nil {
		return pair{}, fmt.Errorf("service token: %w", err)
	}
	return pair{user: user, service: service}, nil
}

// currentToken returns the token of a provider. The provider authenticates if it has no token.
func currentToken(ctx context.Context, provider *gophercloud.ProviderClient) (string, error) {
	if provider.Token() == "" && provider.ReauthFunc != nil {
		if err := reauthenticate(ctx, provider, ""); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoToken, err)
		}
	}
	token := provider.Token()
	if strings.ContainsFunc(token, func(char rune) bool { return char <= ' ' || char > '~' }) {
		return "", fmt.Errorf("%w: it has characters that are invalid in a header", ErrNoToken)
	}
	return token, nil
}

// renewed returns tokens instead of refused ones. A 401 does not say which of them was refused.
// Tokens of providers that cannot authenticate stay.
func (t Tokens) renewed(ctx context.Context, refused pair) (pair, error) {
	user, err := renewedToken(ctx, t.User, refused.user)
	if err != nil {
		return pair{}, err
	}
	service, err := renewedToken(ctx, t.Service, refused.service)
	if err != nil {
		return pair{}, fmt.Errorf("service token: %w", err)
	}
	return pair{user: user, service: service}, nil
}

// renewedToken returns another token than the refused one. Keystone issues the same
// token again when its state was restored, so a renewal that brings it is repeated.
func renewedToken(ctx context.Context, provider *gophercloud.ProviderClient, refused string) (string, error) {
	if provider == nil || provider.ReauthFunc == nil {
		return refused, nil
	}
	for range 2 {
		if err := reauthenticate(ctx, provider, refused); err != nil {
			return "", err
		}
		if token := provider.Token(); token != refused {
			return token, nil
		}
	}
	return "", errSameToken
}

// maxForeignEnds bounds how often a caller begins again a renewal that another caller's
// context has ended.
const maxForeignEnds = 20

// reauthenticate renews the token unless it is another than the refused one already.
// Requests wait for a renewal in progress, which ends with the context of the request
// that began it.
func reauthenticate(ctx context.Context, provider *gophercloud.ProviderClient, refused string) error {
	var err error
	for range maxForeignEnds {
		err = provider.Reauthenticate(ctx, refused)
		if !endedByContext(err) || ctx.Err() != nil {
			break
		}
	}
	return new(Outcome).Redacted(err) // a given provider does not shorten what Keystone answers
}

// endedByContext reports whether an error is the error of a context. A network error, such as the
// timeout of a dial, only matches it.
func endedByContext(err error) bool {
	if err == context.Canceled || err == context.DeadlineExceeded {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return endedByContext(err.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), endedByContext)
	}
	return false
}
