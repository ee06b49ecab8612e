package cyborgclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
)

// Call describes one call to Cyborg for observers. Retries belong to it and are
// counted in Attempts.
type Call struct {
	Operation string        // such as "accelerator.arq.bind", named as in the fault rules of the simulators
	IDs       []string      // UUIDs and names of the call, as given
	Method    string        // HTTP method
	Status    int           // of the last answer; 0 without an answer
	Attempts  int           // requests sent; 0 when nothing was sent
	Start     time.Time     // when the call began, by the local clock
	Duration  time.Duration // until the answer was decoded, retries and waits included
	Date      time.Time     // Date header of the last answer, by the server's clock; zero without one
	Err       error         // the error that the method returns
}

type observerKey struct{}

// Observe returns a context whose calls are reported to observe, in addition to the observers of
// outer contexts. Each call is reported once, after its retries. Observe traces one flow through
// a shared client. Requests refused before sending (ErrInvalid, ErrMicroversion) are not
// reported. observe runs on the caller's goroutine.
func Observe(ctx context.Context, observe func(Call)) context.Context {
	outer, _ := ctx.Value(observerKey{}).([]func(Call))
	return context.WithValue(ctx, observerKey{}, append(slices.Clip(outer), observe))
}

// request is one call before it is sent.
type request struct {
	op      string
	ids     []string
	invalid error  // why the call is refused, nil when it is valid
	method  string // GET when empty
	url     string
	need    int // lowest minor version that suffices
	prefer  int // minor version to use if the server supports it
	body    any // JSON body, nil for none
	// decode reads the body of a 2xx answer; nil for calls whose answer is empty.
	decode func(body []byte) error
	// gone: a 404 to a retry means success (see [session.Outcome]).
	gone bool
}

// call sends r and returns its decoded answer.
func call[T any](ctx context.Context, c *Client, r request, decode func(body []byte) (T, error)) (T, error) {
	var answer T
	r.decode = func(body []byte) (err error) {
		answer, err = decode(body)
		return err
	}
	if err := c.do(ctx, r); err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// find returns the resource of r in a list. err is the error of the list call. If the list does
// not contain the resource, the error matches ErrNotFound and IsMissing reports true.
func find[T any](r request, list []T, err error, is func(T) bool) (*T, error) {
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, is); i >= 0 {
		return &list[i], nil
	}
	return nil, r.failed(ErrNotFound, errNotListed)
}

// successes are the statuses that may mean success; see read.
func successes() []int {
	return []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}
}

// do performs one call: check, microversion, tokens, request with retries,
// decoded answer or error, observers.
func (c *Client) do(ctx context.Context, r request) error {
	if r.invalid != nil {
		return r.failed(ErrInvalid, r.invalid)
	}
	r.method = cmp.Or(r.method, http.MethodGet)
	minor, err := c.negotiate(ctx, r)
	if err != nil {
		return err
	}
	call := Call{Operation: r.op, IDs: slices.Clone(r.ids), Method: r.method, Start: time.Now()}
	call.Err = c.exchange(ctx, r, minor, &call)
	if minor > r.need && errors.Is(call.Err, ErrMicroversion) { // a worker that is still to be upgraded
		call.Err = c.exchange(ctx, r, r.need, &call)
	}
	call.Duration = time.Since(call.Start)
	observers, _ := ctx.Value(observerKey{}).([]func(Call))
	for _, observe := range observers {
		observe(call)
	}
	return call.Err
}

// requestTimeout bounds a request with its retries. A PATCH that binds may program a device,
// which takes minutes.
const requestTimeout = 10 * time.Minute

// send performs the request and records status, date and attempts in call. It returns the minor version
// that Cyborg applied, or noVersion.
func (c *Client) send(ctx context.Context, r request, version string, call *Call) (applied int, err error) {
	if err := ctx.Err(); err != nil {
		return noVersion, r.failed(ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ctx, outcome := session.Watch(ctx)
	answer, err := c.service.Request(ctx, r.method, r.url, &gophercloud.RequestOpts{
		JSONBody: r.body, OkCodes: successes(), KeepResponseBody: true,
		MoreHeaders: map[string]string{headerVersion: version},
	})
	call.Attempts += outcome.Attempts
	if err != nil {
		var refusal gophercloud.ErrUnexpectedResponseCode
		if !errors.As(err, &refusal) {
			return noVersion, r.unanswered(err, outcome.Sent)
		}
		applied = c.readHeader(refusal.Actual, refusal.ResponseHeader, call)
		return applied, c.failure(r, refusal, outcome)
	}
	defer answer.Body.Close()
	applied = c.readHeader(answer.StatusCode, answer.Header, call)
	return applied, r.read(answer.StatusCode, outcome.Answer)
}

// readHeader records status and date of an answer in call, stores its maximum version, and returns the
// applied minor version, or noVersion.
func (c *Client) readHeader(status int, header http.Header, call *Call) (applied int) {
	c.learn(header.Get(headerMaxVersion))
	call.Status, call.Date = status, time.Time{}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		call.Date = date
	}
	applied, ok := parseApplied(header)
	if !ok {
		return noVersion
	}
	return applied
}

// failure converts an error answer into an error of this package, or into success for a deletion that an
// earlier attempt had already done.
func (c *Client) failure(r request, answer gophercloud.ErrUnexpectedResponseCode, outcome *session.Outcome) error {
	if r.gone && outcome.Uncertain && answer.Actual == http.StatusNotFound && isCyborgNotFound(answer.Body) {
		return nil
	}
	apiErr := newAPIError(r, answer, outcome.Sent)
	cause, kinds := outcome.Err, []error{ErrUnauthorized, apiErr}
	switch {
	case cause != nil:
		if isAway(cause) {
			kinds = append(kinds, ErrUnavailable)
		}
		cause = fmt.Errorf("reauthenticate: %w", cause)
	case answer.Actual == http.StatusUnauthorized && c.settings.withService:
		cause = errors.New("one of the tokens is refused; the user of X-Service-Token needs the role service")
	default:
		return apiErr
	}
	return &callError{op: r.op, ids: r.ids, kinds: kinds, hidden: outcome.Sent, cause: cause}
}

// isAway reports whether Keystone did not answer a login, or answered with a status such as 503,
// for example during a restart.
func isAway(err error) bool {
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return answer.Actual >= 500 || httpbounds.AskAgain(answer.Actual)
	}
	return errors.As(err, new(net.Error))
}

// newAPIError decodes an error answer.
func newAPIError(r request, answer gophercloud.ErrUnexpectedResponseCode, secrets []string) error {
	answer.Body = session.Excerpt(answer.Body, secrets)
	decoded := decodeFault(answer.Body)
	if answer.Actual/100 == 3 && decoded.detail == "" {
		decoded.detail = redirection(answer, secrets)
	}
	if decoded.title == "" {
		decoded.title = http.StatusText(answer.Actual)
	}
	return &APIError{
		Service: serviceType, Op: r.op, IDs: slices.Clone(r.ids), Method: r.method, URL: r.url, Status: answer.Actual,
		Code: decoded.code, Title: decoded.title, Detail: decoded.detail,
		RequestID: clip(session.Redact(answer.ResponseHeader.Get("X-Openstack-Request-Id"), secrets), 100), cause: answer,
		role: requiredRole(r.op, answer.Actual, decoded.detail, answer.ResponseHeader),
	}
}

// redirection describes an answer of status 3xx without a message. The Location of a 304 is ignored.
func redirection(answer gophercloud.ErrUnexpectedResponseCode, secrets []string) string {
	location := clip(session.Redact(answer.ResponseHeader.Get("Location"), secrets), 500)
	if location == "" || answer.Actual == http.StatusNotModified {
		return "answered without a redirect"
	}
	return "redirected to " + location + ", which is not followed"
}

// unanswered returns the error of a call without an answer.
func (r request) unanswered(err error, secrets []string) error {
	failure := &callError{op: r.op, ids: r.ids, kinds: []error{ErrUnavailable}, cause: err, hidden: secrets}
	switch {
	case errors.Is(err, httpbounds.ErrTooLarge), errors.Is(err, httpbounds.ErrPage):
		failure.kinds = []error{ErrMalformed}
	case errors.Is(err, session.ErrNoToken):
		failure.kinds = []error{ErrUnauthorized}
	}
	if r.changes() && !session.NotSent(err) {
		failure.kinds = append([]error{ErrReplyLost}, failure.kinds...)
	}
	return failure
}

// read decodes a successful answer. An answer without content is recognized by its status alone:
// a proxy in maintenance answers 200 with a page.
func (r request) read(status int, answer []byte) error {
	var err error
	if r.decode != nil {
		err = r.decode(answer)
	} else if !r.confirms(status, answer) {
		err = fmt.Errorf("%d %s is not an answer of Cyborg to this request", status, http.StatusText(status))
	}
	if err == nil {
		return nil
	}
	failure := &callError{op: r.op, ids: r.ids, kinds: []error{ErrMalformed}, cause: err}
	if r.changes() {
		failure.kinds = []error{ErrReplyLost, ErrMalformed}
	}
	return failure
}

// confirms reports whether this status means success for a call whose answer has no content.
// Enabling and disabling a device is documented with 200 and answered with 204.
func (r request) confirms(status int, answer []byte) bool {
	switch r.method {
	case http.MethodPatch:
		return status == http.StatusAccepted
	case http.MethodPost:
		return status == http.StatusNoContent || status == http.StatusOK && len(answer) == 0
	}
	return status == http.StatusNoContent
}

// changes reports whether sending r twice differs from sending it once.
func (r request) changes() bool { return changes(r.method) }

func changes(method string) bool { return method == http.MethodPost || method == http.MethodPatch }
