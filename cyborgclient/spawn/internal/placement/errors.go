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

// Error is an error answer of Placement. It unwraps to gophercloud's
// ErrUnexpectedResponseCode, and to the error of a failed reauthentication.
type Error struct {
	Status int
	Code   string // such as "placement.concurrent_update"
	Detail string

	maxVersion string // of an answer that refuses a microversion
	text       string // operation, subject, request id
	cause      error
}

// Error names the operation, the subject and the server's message.
func (e *Error) Error() string { return line(e.text) }

// Unwrap returns gophercloud's error.
func (e *Error) Unwrap() error { return e.cause }

// decodeError names the operation, such as "GET allocations", and the consumer or
// provider. A renewal of the token that failed before is part of the cause. Tokens that the
// answer quotes are left out.
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

// unanswered is a call without an error answer.
type unanswered struct {
	what   string
	cause  error
	hidden []string // tokens, in case the cause quotes one
}

// Error leaves out what net/url adds: method and URL, with the whole query. Of a web page the URL is what is wrong.
func (e *unanswered) Error() string {
	cause := e.cause
	var failed *url.Error
	if errors.As(cause, &failed) && !errors.Is(cause, httpbounds.ErrPage) {
		cause = failed.Err
	}
	return line(session.Redact(e.what+": "+cause.Error(), e.hidden))
}

// line is a text in one line.
func line(text string) string { return terminal.Line(strings.ReplaceAll(text, "\n", "; ")) }

// Unwrap returns the cause.
func (e *unanswered) Unwrap() error { return e.cause }

// answer returns the error answer of Placement in an error; the zero value if there
// is none.
func answer(err error) Error {
	var e *Error
	if errors.As(err, &e) {
		return *e
	}
	return Error{}
}

// StatusOf is the status of an error answer of Placement; 0 without an answer.
func StatusOf(err error) int { return answer(err).Status }

// DetailOf is the message of an error answer of Placement.
func DetailOf(err error) string { return answer(err).Detail }

// UnknownProvider reports that Placement does not know the resource provider of a request. The
// 404 of an ingress does not say so.
func UnknownProvider(err error) bool {
	return StatusOf(err) == http.StatusNotFound && strings.Contains(DetailOf(err), "No resource provider with uuid")
}

// Refused reports that Placement certainly did not apply a change: it answered with
// a status that proves it, or there was no token to send it with. Otherwise the outcome is unknown.
func Refused(err error) bool {
	return httpbounds.Refused(StatusOf(err)) || errors.Is(err, session.ErrNoToken)
}

// VersionRefused reports that Placement does not support the microversion. A 406 of a proxy, such as
// that of a web application firewall, names no version.
func VersionRefused(err error) bool {
	e := answer(err)
	return e.Status == http.StatusNotAcceptable && e.maxVersion != ""
}

// ConcurrentUpdate reports a conflict of generations.
func ConcurrentUpdate(err error) bool { return answer(err).Code == "placement.concurrent_update" }

// RecordChanged reports that the database of Placement refused a write whose row had changed since the transaction read it,
// as MariaDB does since 11.6. The status is 500: whether anything was written has to be read.
func RecordChanged(err error) bool {
	return StatusOf(err) == http.StatusInternalServerError && strings.Contains(DetailOf(err), "Record has changed since last read")
}

// ConsumerConflict reports that another client changed the consumer itself.
func ConsumerConflict(err error) bool {
	return ConcurrentUpdate(err) && strings.Contains(DetailOf(err), "consumer generation conflict")
}

// EmptyConsumer reports that Placement has a consumer without allocations, of generation 0: it keeps
// that of a first claim on a provider that does not exist.
func EmptyConsumer(err error) bool {
	return ConsumerConflict(err) && strings.Contains(DetailOf(err), "expected 0 but got None")
}
