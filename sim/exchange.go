package sim

import "time"

// OperationName is the stable name of a request to a service or of its background work, such as
// "placement.allocations.put". It is used by fault rules and in records of requests; package
// fault has a constant for each.
type OperationName string

// Route is one operation that a service serves.
type Route struct {
	// Service is identity, placement, accelerator, compute or image.
	Service string `json:"service"`
	// Operation is the name in fault rules and records.
	Operation OperationName `json:"operation"`
	Method    string        `json:"method"`
	// Pattern is the path below the service's root, variables in braces.
	Pattern string `json:"pattern"`
	// Query are the query keys that are read; a trailing * matches any end, * alone matches every
	// key, and a key after ! is not read even if a * matches it.
	Query []string `json:"query,omitempty"`
	// Body are the paths of the members of a JSON body that are read: "name",
	// "[].groups[].*". A name is a member, * any member, [] the items of an array; what is
	// below the last name belongs to it. A member after ! is not read although a * fits.
	// "" is a body that the service checks as a whole; without any path no JSON is read.
	// A body that is read at some microversions only is listed, too. Names are exact in
	// case, as they are for the real services.
	Body []string `json:"body,omitempty"`
}

// Exchange is one request that a service answered. Bodies, headers and tokens are not kept, and
// secrets in the path, the query, the User-Agent and unrecognized names are "***".
type Exchange struct {
	// Service is identity, placement, accelerator, compute or image.
	Service string `json:"service"`
	// Operation is the operation of the [Route]; empty for an unknown path.
	Operation OperationName `json:"operation"`
	// Subject is the first identifier in the path.
	Subject string `json:"subject,omitempty"`
	// From is the caller's User-Agent header.
	From   string `json:"from,omitempty"`
	Method string `json:"method"`
	// Path is unescaped and includes the mount point, Query is as sent.
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	// Microversion is the one applied: "1.36".
	Microversion string `json:"microversion,omitempty"`
	RequestID    string `json:"request_id"`
	// GlobalRequestID is the ID that the caller sent. It correlates the caller's requests.
	GlobalRequestID string `json:"global_request_id,omitempty"`
	// Status is the status sent, 0 if the connection was dropped.
	Status int `json:"status"`
	// Deviation says why the real service would have answered otherwise, where the simulator accepts by default
	// what it refuses: "the service token shows ARQ ... of project ...".
	Deviation string `json:"deviation,omitempty"`
	// Fault is the action of the fault rule that acted, if one did.
	Fault    string        `json:"fault,omitempty"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	// Changes is what the request changed in the service that answered it, in order.
	Changes []Change `json:"changes,omitempty"`
	// Internal is set for a request that another simulated service sent.
	Internal bool `json:"internal,omitempty"`
	// Unrecognized lists query keys and members of the body that the service does not
	// read: "query limitt", "body [0].colour".
	Unrecognized []string `json:"unrecognized,omitempty"`
}

// The actions of a [Change].
const (
	Created = "created"
	Changed = "changed"
	Deleted = "deleted"
)

// Change is the difference that one request made to one thing. Work that goes on after the
// answer, such as a bind in the background, belongs to no request.
//
// The kinds of Placement are resource_provider (its name, parent, root or generation),
// inventory (its ID is PROVIDER/CLASS), provider_traits and aggregates (by the provider's
// uuid), resource_class and trait (by name), consumer (by uuid) and allocation
// (CONSUMER/PROVIDER/CLASS).
//
// Cyborg's kinds are device_profile, accelerator_request, attach_handle (its holder),
// device (its status), deployable (its bitstream) and attribute, each by uuid;
// mediated_device by uuid and region by the deployable's name for changes of the hardware.
//
// The kinds of other services are token (by its audit id) and application_credential, event (by
// number) and image. The kind "more" represents all changes after the thousandth.
type Change struct {
	Action string `json:"action"` // Created, Changed or Deleted
	Kind   string `json:"kind"`
	ID     string `json:"id"` // within the kind; never a secret
	// What describes the change in one line: "state Initial -> BindStarted".
	What string `json:"what,omitempty"`
}
