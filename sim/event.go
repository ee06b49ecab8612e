package sim

import "time"

// Event is an event of Nova's os-server-external-events.
type Event struct {
	Name       string `json:"name"`
	ServerUUID string `json:"server_uuid"`
	// Tag is nil in an event that was sent without one.
	Tag    *string `json:"tag,omitempty"`
	Status string  `json:"status"`
}

// ReceivedEvent is an event that the compute service was sent.
type ReceivedEvent struct {
	Event
	// Code is the event's code in the answer: 200, or 400, 404 or 422 if it was refused. For a
	// forwarded event it is the code from the first receiver that refused it; an error status of
	// the POST applies to each of its events. Without an answer it stays 200, and Problems has
	// the reason.
	Code int `json:"code"`
	// At is when it arrived.
	At time.Time `json:"at"`
	// Forwarded lists the receivers that got the event, Problems those that did not and
	// why. A delayed event is in neither until it is due.
	Forwarded []string `json:"forwarded,omitempty"`
	Problems  []string `json:"problems,omitempty"`
}

// Guest is an instance: a server of Nova's and the virtual machine on its host.
type Guest struct {
	// UUID is the instance's.
	UUID string `json:"uuid"`
	// Host is where it runs; empty while it is not scheduled.
	Host string `json:"host"`
	// Domain is its libvirt XML; empty before it is known.
	Domain string `json:"domain"`
}
