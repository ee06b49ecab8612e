package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Error is an error answer of Placement. It unwraps to gophercloud's
// ErrUnexpectedResponseCode.
type Error struct {
	Op        string // "GET allocation_candidates"
	Subject   string // the consumer or provider
	Status    int
	Code      string // such as "placement.concurrent_update"
	Detail    string
	RequestID string

	cause error
}

// Error names the operation, the subject and the server's message.
func (e *Error) Error() string {
	text := fmt.Sprintf("placement: %s", e.Op)
	if e.Subject != "" {
		text += " " + e.Subject
	}
	text += fmt.Sprintf(": %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + strings.Join(strings.Fields(e.Detail), " ")
	}
	if e.RequestID != "" {
		text += " (" + e.RequestID + ")"
	}
	return text
}

// Unwrap returns gophercloud's error.
func (e *Error) Unwrap() error { return e.cause }

func decodeError(op, subject string, err error) error {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &unexpected) {
		return fmt.Errorf("placement: %s %s: %w", op, subject, err)
	}
	e := &Error{Op: op, Subject: subject, Status: unexpected.Actual, cause: err}
	var body struct {
		Errors []struct{ Detail, Code, RequestID string } `json:"errors"`
	}
	if json.Unmarshal(unexpected.Body, &body) == nil && len(body.Errors) > 0 {
		e.Detail, e.Code = body.Errors[0].Detail, body.Errors[0].Code
	}
	e.RequestID = unexpected.ResponseHeader.Get("X-Openstack-Request-Id")
	return e
}

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

// Refused reports that Placement certainly did not apply a change: it answered with
// a 4xx. Otherwise the outcome is unknown.
func Refused(err error) bool { return StatusOf(err)/100 == 4 }

// ConcurrentUpdate reports a conflict of generations.
func ConcurrentUpdate(err error) bool { return answer(err).Code == "placement.concurrent_update" }

// ConsumerConflict reports that another client changed the consumer itself.
func ConsumerConflict(err error) bool {
	return ConcurrentUpdate(err) && strings.Contains(DetailOf(err), "consumer generation conflict")
}
