package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/internal/terminal"
)

// Error is an error response of Placement. It unwraps to gophercloud's ErrUnexpectedResponseCode, and to the error of
// a failed reauthentication.
type Error struct {
	Status int
	Code   string // such as "placement.concurrent_update"
	Detail string

	maxVersion string // of a response that refuses a microversion
	text       string // operation, subject, request id
	cause      error
}

// Error returns the operation, the subject and the server's message.
func (e *Error) Error() string { return line(e.text) }

// Unwrap returns gophercloud's error.
func (e *Error) Unwrap() error { return e.cause }

// decodeError returns an error with the operation, such as "GET allocations", and the consumer or provider. If a
// renewal of the token failed before, its error is part of the cause. Tokens in the response are redacted.
func decodeError(op, subject string, err error, tokens *session.Outcome) error {
	what, renewal := strings.TrimSpace("placement: "+op+" "+subject), tokens.Err
	err = tokens.Redacted(err)
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &unexpected) {
		return &unanswered{what, err, tokens.Sent}
	}
	e := &Error{Status: unexpected.Actual, cause: errors.Join(err, renewal)}
	var body struct {
		Errors []struct {
			Detail, Code string
			MaxVersion   string `json:"max_version"`
		} `json:"errors"`
	}
	if json.Unmarshal(unexpected.Body, &body) == nil && len(body.Errors) > 0 {
		e.Detail, e.Code, e.maxVersion = body.Errors[0].Detail, body.Errors[0].Code, body.Errors[0].MaxVersion
	}
	e.text = fmt.Sprintf("%s: %d %s", what, e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		e.text += ": " + strings.Join(strings.Fields(e.Detail), " ")
	}
	if id := unexpected.ResponseHeader.Get("X-Openstack-Request-Id"); id != "" {
		e.text += " (" + id + ")"
	}
	if renewal != nil {
		e.text += ": reauthenticate: " + renewal.Error()
	}
	e.text = session.Redact(e.text, tokens.Sent)
	return e
}

// unanswered is the error of a call without an error response.
type unanswered struct {
	what   string
	cause  error
	hidden []string // tokens, in case the cause quotes one
}

// Error omits the method and URL that net/url adds, with the whole query. If the response is a web page, the URL is
// kept, because it is probably wrong.
func (e *unanswered) Error() string {
	cause := e.cause
	if failed, ok := errors.AsType[*url.Error](cause); ok && !errors.Is(cause, httpbounds.ErrPage) {
		cause = failed.Err
	}
	return line(session.Redact(e.what+": "+cause.Error(), e.hidden))
}

// line is a text in one line.
func line(text string) string { return terminal.Line(strings.ReplaceAll(text, "\n", "; ")) }

// Unwrap returns the cause.
func (e *unanswered) Unwrap() error { return e.cause }

// answer returns the Error in an error's tree, or the zero value.
func answer(err error) Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return *e
	}
	return Error{}
}

// StatusOf returns the status of an error response of Placement, or 0.
func StatusOf(err error) int { return answer(err).Status }

// DetailOf returns the message of an error response of Placement.
func DetailOf(err error) string { return answer(err).Detail }

// UnknownProvider reports whether Placement answered that the resource provider does not exist. The 404 of an ingress
// does not match.
func UnknownProvider(err error) bool {
	return StatusOf(err) == http.StatusNotFound && strings.Contains(DetailOf(err), "No resource provider with uuid")
}

// Refused reports whether Placement certainly did not apply a change: it answered with a status that proves it, or
// there was no token to send the request with. Otherwise the outcome is unknown.
func Refused(err error) bool {
	return httpbounds.Refused(StatusOf(err)) || errors.Is(err, session.ErrNoToken)
}

// VersionRefused reports whether Placement does not support the microversion. A 406 from a proxy, such as a web
// application firewall, names no version and does not match.
func VersionRefused(err error) bool {
	e := answer(err)
	return e.Status == http.StatusNotAcceptable && e.maxVersion != ""
}

// ConcurrentUpdate reports whether the error is a conflict of generations.
func ConcurrentUpdate(err error) bool { return answer(err).Code == "placement.concurrent_update" }

// RecordChanged reports whether the database of Placement refused a write because the row had changed since the
// transaction read it, as MariaDB does since 11.6. The status is 500; read the allocation to find out whether
// anything was written.
func RecordChanged(err error) bool {
	return StatusOf(err) == http.StatusInternalServerError && strings.Contains(DetailOf(err), "Record has changed since last read")
}

// ConsumerConflict reports whether another client changed the consumer itself.
func ConsumerConflict(err error) bool {
	return ConcurrentUpdate(err) && strings.Contains(DetailOf(err), "consumer generation conflict")
}

// EmptyConsumer reports whether Placement has a consumer without allocations, of generation 0. It keeps such a
// consumer after a first claim on a provider that does not exist.
func EmptyConsumer(err error) bool {
	return ConsumerConflict(err) && strings.Contains(DetailOf(err), "expected 0 but got None")
}
