package simcloud

import "time"

// Request is one request that the cloud answered, whether it came from outside or from
// one of its own services. Bodies and tokens are not kept.
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
}

// Requests returns the newest requests since the cloud was made, in the order in which
// they started, 20000 at most. A request that one of the services sends while it works on
// another follows that one.
func (c *Cloud) Requests() []Request {
	exchanges := c.recorder.Exchanges()
	list := make([]Request, 0, len(exchanges))
	for _, e := range exchanges {
		list = append(list, Request(e))
	}
	return list
}

// ForgetRequests empties the record.
func (c *Cloud) ForgetRequests() { c.recorder.Reset() }
