package cyborgclient

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/internal/terminal"
)

// Sentinels, one per decision that a caller can make; compare with errors.Is.
// An error may match several: a create answered 503 is both ErrUnavailable and
// ErrReplyLost.
var (
	// ErrInvalid: the request is wrong and repeating it will not help. Refused by
	// this package before it was sent, or answered 400, 405, 413 or 415.
	ErrInvalid = errors.New("invalid request")
	// ErrUnauthorized: no valid token (401), also after reauthentication, or a login that
	// Keystone refuses: 401, or 404 for an application credential or a token that it does
	// not know. Also matches ErrUnavailable if Keystone did not answer then, or with a 5xx.
	ErrUnauthorized = errors.New("not authenticated")
	// ErrForbidden: the token is not allowed to do this (403).
	ErrForbidden = errors.New("forbidden")
	// ErrServiceToken: a 403 because the call needs a valid X-Service-Token of a
	// user with the service role: bind, unbind, delete by instance, and delete of
	// an ARQ that has an instance. Also matches ErrForbidden.
	ErrServiceToken = errors.New("a service token is required")
	// ErrNotFound: no such resource, or it belongs to another project (404).
	ErrNotFound = errors.New("not found")
	// ErrNoFreeHandle: a bind found no free attach handle on the provider (404
	// naming the AttachHandle). The ARQ is BindFailed now. Also matches
	// ErrNotFound.
	ErrNoFreeHandle = errors.New("no free attach handle")
	// ErrConflict: the state of the resource forbids the request: 409, and
	// conflicts that Cyborg answers with 400 or 500 (an ARQ in the wrong state, an
	// instance that already has ARQs, a name or UUID that exists, a device profile
	// in use).
	ErrConflict = errors.New("conflict")
	// ErrRegionRefused: the FPGA region of the provider cannot serve a bind or a
	// programming: others use it, it is being programmed, it is pre-programmed or has
	// another function than the request needs; or a device of any kind has changed, and
	// has lost a trait that the request needs (409 naming the deployable). Another
	// region may. After a bind the ARQ is BindFailed. Also matches ErrConflict.
	ErrRegionRefused = errors.New("refused by the FPGA region")
	// ErrEventRefused: the bind was applied, but Nova refused Cyborg's event and
	// Cyborg answered 400. The ARQs are Bound, as a GET shows. It does not match
	// ErrInvalid.
	ErrEventRefused = errors.New("bound, but the compute service refused the event")
	// ErrNotResolved: the resolved ARQs of an instance were listed while at least
	// one is not resolved yet (423).
	ErrNotResolved = errors.New("not resolved yet")
	// ErrMicroversion: the server does not support the microversion that the call
	// needs. It is detected before sending when an earlier answer named the
	// server's maximum; otherwise it is a 406.
	ErrMicroversion = errors.New("microversion not supported by the server")
	// ErrUnavailable: no answer, 408, 429, or a 5xx that is not a known conflict. A
	// later attempt may succeed. A 429 says that nothing was done.
	ErrUnavailable = errors.New("service unavailable")
	// ErrReplyLost: the outcome of a POST or PATCH is unknown and it may have been
	// applied: the connection broke after bytes may have been sent, a 2xx answer
	// was truncated or malformed, or the status proves nothing: a 5xx (a gateway
	// timeout, or Cyborg failing half-way: it does not create the ARQs of one
	// request in one transaction), a 408 (Envoy also answers it while the service
	// still works on the request), a 2xx that Cyborg does not answer, such as 203,
	// or a 3xx. It is not set when nothing was sent (context done, connection
	// refused, request refused by this package).
	ErrReplyLost = errors.New("outcome unknown, the reply was lost")
	// ErrMalformed: a 2xx or 3xx answer violates Cyborg's API, is a web page, or is
	// larger than 128 MiB.
	ErrMalformed = errors.New("malformed answer")
)

// APIError is an error answer of Cyborg or of a proxy before it. Detail is the
// decoded message without markup; it never holds a token.
type APIError struct {
	Service   string   // "accelerator"
	Op        string   // see Call.Operation
	IDs       []string // UUIDs and names of the call
	Method    string
	URL       string
	Status    int    // HTTP status
	Code      string // faultcode, or the code of another error dialect; often empty
	Title     string // the server's title, else the standard text of the status
	Detail    string // the server's message; empty when it sent none
	RequestID string // x-openstack-request-id

	role  string // the role that Cyborg's default policy requires; empty if unknown
	cause error  // gophercloud.ErrUnexpectedResponseCode
}

// Error returns the operation, its subject, the status and the first line of the
// server's message. A refusal by Cyborg's policy also names the role that the default
// policy of the release requires, as far as the answer shows the release.
func (e *APIError) Error() string {
	var text strings.Builder
	shown := func(text string, most int) string { return clip(terminal.Line(text), most) } // escapes are longer
	fmt.Fprintf(&text, "cyborgclient: %s: %d %s", subject(e.Op, e.IDs), e.Status, shown(e.Title, 200))
	if first, _, _ := strings.Cut(e.Detail, "\n"); first != "" && first != fmt.Sprintf("%d %s", e.Status, e.Title) { // the title of a proxy's page
		text.WriteString(": " + shown(strings.TrimSuffix(first, "."), 500))
	}
	if e.role != "" {
		text.WriteString(": the default policy requires the role " + e.role + " in a project")
	}
	if e.RequestID != "" {
		text.WriteString(" (" + shown(e.RequestID, 100) + ")")
	}
	return terminal.Line(text.String())
}

// Unwrap returns gophercloud's ErrUnexpectedResponseCode, so that
// gophercloud.ResponseCodeIs keeps working.
func (e *APIError) Unwrap() error { return e.cause }

// Is reports whether status and message match the sentinel target.
func (e *APIError) Is(target error) bool { return slices.Contains(e.sentinels(), target) }

// sentinels returns the sentinels that e matches. The texts come from cyborg/common/exception.py
// and cyborg/api/controllers/v2/arqs.py, or from fakecyborg for requests that upstream accepts.
// The status is not enough, because exceptions without a code are answered 500.
func (e *APIError) sentinels() []error {
	switch {
	case e.Status == http.StatusForbidden && e.says("service token", "Use the Compute API"):
		return []error{ErrForbidden, ErrServiceToken}
	case e.Status == http.StatusNotFound && e.says("AttachHandle not found"):
		return []error{ErrNotFound, ErrNoFreeHandle}
	case e.Status == http.StatusConflict && e.says("deployable "):
		return []error{ErrConflict, ErrRegionRefused}
	case e.Status == http.StatusBadRequest && e.says("os-server-external-events"):
		return []error{ErrEventRefused}
	case e.Status == http.StatusBadRequest && e.says("already has accelerator requests"):
		return []error{ErrConflict}
	case e.Status == http.StatusInternalServerError && e.says(
		"Expected state(s): ['Initial'", "already exists", "foreign key constraint", "FOREIGN KEY constraint"):
		return []error{ErrConflict}
	}
	var kinds []error
	if changes(e.Method) && !httpbounds.Refused(e.Status) {
		kinds = append(kinds, ErrReplyLost)
	}
	switch sentinel, ok := statusSentinels[e.Status]; {
	case ok:
		kinds = append(kinds, sentinel)
	case e.Status >= 500:
		kinds = append(kinds, ErrUnavailable)
	case e.Status < 400:
		kinds = append(kinds, ErrMalformed)
	}
	return kinds
}

// statusSentinels are the sentinels of statuses for which the message does not matter.
var statusSentinels = map[int]error{
	http.StatusBadRequest:            ErrInvalid,
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusForbidden:             ErrForbidden,
	http.StatusNotFound:              ErrNotFound,
	http.StatusMethodNotAllowed:      ErrInvalid,
	http.StatusNotAcceptable:         ErrMicroversion,
	http.StatusConflict:              ErrConflict,
	http.StatusRequestEntityTooLarge: ErrInvalid,
	http.StatusUnsupportedMediaType:  ErrInvalid,
	http.StatusLocked:                ErrNotResolved,
	http.StatusRequestTimeout:        ErrUnavailable,
	http.StatusTooManyRequests:       ErrUnavailable,
}

func (e *APIError) says(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(e.Detail, text) })
}

// refusedLogin is the error of a login that Keystone refused. Its text says so already.
type refusedLogin struct{ error }

// Unwrap returns the error of the login.
func (e refusedLogin) Unwrap() error { return e.error }

// Is matches ErrUnauthorized.
func (e refusedLogin) Is(target error) bool { return target == ErrUnauthorized }

// errNotListed: the list does not contain the requested resource.
var errNotListed = errors.New("not in the list of Cyborg")

// IsMissing reports that Cyborg itself answered that it does not know a resource. ErrNotFound
// also matches the 404 of an ingress without a backend, which proves nothing. Cyborg gives the
// same answer for an ARQ of another project unless the token has the role admin.
func IsMissing(err error) bool {
	var answer gophercloud.ErrUnexpectedResponseCode
	return errors.Is(err, errNotListed) || errors.Is(err, ErrNotFound) && errors.As(err, &answer) && isCyborgNotFound(answer.Body)
}

// DeleteError is returned by DeleteARQs when some ARQs could not be deleted.
// The others no longer exist, or are hidden from the token.
type DeleteError struct {
	Failed map[string]error // by the UUID of the ARQ
}

// Error lists the remaining ARQs, each with its cause.
func (e *DeleteError) Error() string {
	var texts []string
	for _, arq := range slices.Sorted(maps.Keys(e.Failed)) {
		text := strings.TrimPrefix(e.Failed[arq].Error(), "cyborgclient: ")
		if !strings.Contains(text, arq) {
			text = arq + ": " + text
		}
		texts = append(texts, text)
	}
	return "cyborgclient: accelerator requests not deleted: " + strings.Join(texts, "; ")
}

// Unwrap returns the error of each ARQ, so that errors.Is and errors.As find
// any of them.
func (e *DeleteError) Unwrap() []error {
	var errs []error
	for _, arq := range slices.Sorted(maps.Keys(e.Failed)) {
		errs = append(errs, e.Failed[arq])
	}
	return errs
}

// callError is a failed call without an error answer: not sent, not answered,
// or answered with a malformed body.
type callError struct {
	op     string
	ids    []string
	kinds  []error // sentinels, most specific first
	cause  error
	hidden []string // secrets, in case the cause quotes one
}

// Error implements error.
func (e *callError) Error() string {
	cause := e.cause
	if unsent, ok := cause.(*url.Error); ok && !errors.Is(cause, httpbounds.ErrPage) { //nolint:errorlint // its text repeats method and URL
		cause = unsent.Err
	}
	text := fmt.Sprintf("cyborgclient: %s: %s: %s", subject(e.op, e.ids), e.kinds[0], session.Redact(cause.Error(), e.hidden))
	return terminal.Line(strings.ReplaceAll(text, "\n", "; "))
}

// GoString implements fmt.GoStringer, without the secrets.
func (e *callError) GoString() string { return fmt.Sprintf("cyborgclient.callError(%q)", e.Error()) }

// Unwrap returns the sentinels and the cause.
func (e *callError) Unwrap() []error { return append(slices.Clone(e.kinds), e.cause) }

// failed returns the error of a call that was not sent.
func (r request) failed(kind, cause error) error {
	return &callError{op: r.op, ids: r.ids, kinds: []error{kind}, cause: cause}
}

// subject returns the operation and its identifiers for error texts.
func subject(op string, ids []string) string {
	if len(ids) == 0 {
		return op
	}
	return op + " " + strings.Join(ids, ",")
}

// clip shortens text to at most n bytes, without cutting a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
