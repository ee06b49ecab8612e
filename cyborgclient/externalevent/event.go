package externalevent

import "strings"

const (
	// ARQBound names the event that Cyborg sends for a resolved accelerator
	// request; its tag is the request's UUID. (Nova's release note misspells it.)
	ARQBound = "accelerator-request-bound"
	// ARQResolved is the event of the Train specification: its status is ok or failed,
	// its tag that of ARQBound. Nova does not have it; see [WithAccept].
	ARQResolved = "arq_resolved"
	// ARQsBound is the event of the Ussuri specification: its tag is the name of a
	// device profile, and all requests of the instance for it are resolved; failed
	// means that at least one of them failed. Nova does not have it.
	ARQsBound = "accelerator-requests-bound"
	// Microversion is the lowest compute API version with [ARQBound].
	Microversion = "2.82"
)

// Status is the status of an event. In Nova's answer it is the status of the delivery.
type Status string

// Statuses of the wire.
const (
	StatusCompleted  Status = "completed"
	StatusFailed     Status = "failed"
	StatusInProgress Status = "in-progress"
	// StatusOK is completed in [ARQResolved]; Nova's schema does not have it.
	StatusOK Status = "ok"
)

// Known reports whether s is in Nova's schema.
func (s Status) Known() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusInProgress
}

// Event is one external event of a server.
type Event struct {
	// Name is [ARQBound] for accelerators.
	Name string `json:"name"`
	// ServerUUID is the instance.
	ServerUUID string `json:"server_uuid"`
	// Tag is the UUID of the accelerator request.
	Tag string `json:"tag,omitempty"`
	// Status: empty means completed.
	Status Status `json:"status,omitempty"`
	// Code is set in answers only: 200 delivered, 404 unknown instance, 400
	// missing tag, 422 instance without a host.
	Code int `json:"code,omitempty"`
}

// key identifies an expected [ARQBound] event. UUIDs are compared case insensitively.
type key struct{ instance, tag string }

func keyOf(instance, tag string) key { return key{strings.ToLower(instance), strings.ToLower(tag)} }

// String returns the event as Nova logs it: name-tag.
func (k key) String() string { return ARQBound + "-" + k.tag }
