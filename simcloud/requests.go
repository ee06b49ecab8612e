package simcloud

import (
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Request is one request that the cloud answered, whether it came from outside or from
// one of its own services. Bodies, headers and tokens are not kept.
type Request struct {
	// Service is identity, placement, accelerator or compute.
	Service string `json:"service"`
	// Operation is a name that fault rules use; empty for an unknown path.
	Operation string `json:"operation"`
	// Subject is the first identifier in the path.
	Subject string `json:"subject,omitempty"`
	// From is the caller's User-Agent.
	From         string `json:"from,omitempty"`
	Method       string `json:"method"`
	Path         string `json:"path"`
	Query        string `json:"query,omitempty"`
	Microversion string `json:"microversion,omitempty"`
	RequestID    string `json:"request_id"`
	// Status is the status sent, 0 if the connection was dropped.
	Status int `json:"status"`
	// Fault is the action of the fault rule that acted, if one did.
	Fault    string        `json:"fault,omitempty"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	// Changes is what the request changed in the service that answered it, in the order in
	// which it did. What a nested request changed is told there.
	Changes []Change `json:"changes,omitempty"`
	// Internal is set for what one of the cloud's own services sent.
	Internal bool `json:"internal,omitempty"`
	// Unread is what was sent and nobody read, as [Cloud.Unread] tells it.
	Unread []string `json:"unread,omitempty"`
}

// Change is one thing that a request changed: what was so before the request and is not
// so after it. What happens after the answer, such as a bind in the background, belongs to
// no request.
type Change struct {
	Action string `json:"action"` // created, changed or deleted
	// Kind is what the thing is: resource_provider, accelerator_request, token, ...; see
	// placementsim.Change and fakecyborg.Change for theirs. More stands for all changes
	// beyond the thousandth.
	Kind string `json:"kind"`
	// ID names the thing within its kind. It is never a secret: a token has an audit id.
	ID string `json:"id"`
	// What tells the change in one line: "state Initial -> BindStarted".
	What string `json:"what,omitempty"`
}

// requestOf is the record of a request as others see it.
func requestOf(e simhttp.Exchange) Request {
	r := Request{
		Service: e.Service, Operation: e.Operation, Subject: e.Subject, From: e.From, Method: e.Method, Path: e.Path,
		Query: e.Query, Microversion: e.Microversion, RequestID: e.RequestID, Status: e.Status, Fault: e.Fault,
		Started: e.Started, Duration: e.Duration, Internal: e.Internal, Unread: e.Unread,
	}
	for _, change := range e.Changes {
		r.Changes = append(r.Changes, Change(change))
	}
	return r
}

// Requests returns the newest requests since the cloud was made, in the order in which
// they started, 20000 at most. A request that one of the services sends while it works on
// another follows that one.
func (c *Cloud) Requests() []Request {
	exchanges := c.recorder.Exchanges()
	list := make([]Request, 0, len(exchanges))
	for _, e := range exchanges {
		list = append(list, requestOf(e))
	}
	return list
}

// ForgetRequests empties the record.
func (c *Cloud) ForgetRequests() { c.recorder.Reset() }
