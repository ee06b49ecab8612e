package simhttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/tables"
)

// Handler serves a call: it answers, or returns the error that the Service writes in its
// dialect, usually an *[Error].
type Handler func(c *Call) error

// Call is one request on its way through a [Service].
type Call struct {
	*http.Request
	// W takes the answer.
	W http.ResponseWriter
	// Match is the route that was found.
	Match
	// Mount is the prefix of the path that was cut off before routing.
	Mount string
	// Identity is the owner of the token, once it was checked.
	Identity Identity
	// Minor is the minor microversion, once it was negotiated.
	Minor int
	// Deviation is the Deviation of the recorded exchange. A handler sets it.
	Deviation string
	service   string // its name, which is its type in the catalog
}

// Error is a refusal. Each service has its own form of it on the wire.
type Error struct {
	Status int
	// Code is the error code of services that send one in addition to the status; it may be empty.
	Code string
	// Text may be empty for a status that has a standard text in the service.
	Text string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Refuse returns an *[Error].
func Refuse(status int, format string, args ...any) error {
	return &Error{Status: status, Text: fmt.Sprintf(format, args...)}
}

// AsError returns the [Error] in an error; any other error is one of status 500.
func AsError(err error) Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return *refusal
	}
	return Error{Status: http.StatusInternalServerError, Text: err.Error()}
}

// PathValue is the value of a variable of the path, unescaped.
func (c *Call) PathValue(name string) string { return c.Match.PathValue(name) }

// JSON answers with a JSON body. It returns nil.
func (c *Call) JSON(status int, value any) error {
	WriteJSON(c.W, status, value)
	return nil
}

// Raw answers with ready JSON. It returns nil.
func (c *Call) Raw(status int, body []byte) error {
	WriteBody(c.W, status, "application/json", body)
	return nil
}

// Empty answers without a body. It returns nil.
func (c *Call) Empty(status int) error {
	WriteEmpty(c.W, status)
	return nil
}

// Log is the log for the changes of the call's transactions.
func (c *Call) Log() *tables.ChangeLog { return ChangeLogOf(c.Context()) }

// Dispatch calls the handler of the route. Without a route it returns an *[Error] of status 404, or
// of status 405 with the header Allow set.
func (c *Call) Dispatch() error {
	if err := c.RequireRoute(); err != nil {
		return err
	}
	return c.Route.Handler(c)
}

// RequireRoute returns the error of Dispatch.
func (c *Call) RequireRoute() error {
	switch {
	case c.Route != nil:
		return nil
	case len(c.Allowed) == 0:
		return &Error{Status: http.StatusNotFound}
	}
	c.W.Header().Set("Allow", strings.Join(c.Allowed, ", "))
	return &Error{Status: http.StatusMethodNotAllowed}
}

// BaseURL is the scheme and the host that the client used. Behind a proxy that terminates
// TLS the scheme is that of X-Forwarded-Proto.
func (c *Call) BaseURL() string { return c.forwardedScheme() + "://" + c.host() }

// DirectURL is the scheme and the host of the request as it arrived.
func (c *Call) DirectURL() string { return c.scheme() + "://" + c.host() }

// ForwardedURL is the scheme and the host that the client used according to X-Forwarded-Proto and
// X-Forwarded-Host, where a proxy sets them.
func (c *Call) ForwardedURL() string {
	return c.forwardedScheme() + "://" + cmp.Or(c.Header.Get("X-Forwarded-Host"), c.host())
}

func (c *Call) scheme() string {
	if c.TLS != nil {
		return "https"
	}
	return "http"
}

func (c *Call) forwardedScheme() string {
	if forwarded := c.Header.Get("X-Forwarded-Proto"); forwarded == "http" || forwarded == "https" {
		return forwarded
	}
	return c.scheme()
}

func (c *Call) host() string { return cmp.Or(c.Host, "localhost") } // HTTP/1.0 has no Host
