package externalevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// maxBody is the longest request body the handler reads.
const maxBody = 1 << 20

// InstanceState reports whether events can be delivered for an instance.
type InstanceState int

const (
	// Unknown: no such instance; its events are answered with code 404.
	Unknown InstanceState = iota
	// NoHost: the instance has no host yet; code 422, which Cyborg ignores.
	NoHost
	// Ready: events are delivered; code 200.
	Ready
)

// HandlerOption is an option of [Registry.Handler].
type HandlerOption func(*handler)

// WithInstances sets the function that looks up an instance. It gets the UUID as
// received. Without this option every instance is [Ready].
func WithInstances(state func(uuid string) InstanceState) HandlerOption {
	return func(h *handler) { h.state = state }
}

// WithAuthorize calls allow for each request before reading it; a refused request is
// answered 401. Without this option any client may send events, so protect the
// handler by other means or use it on a private network.
func WithAuthorize(allow func(*http.Request) bool) HandlerOption {
	return func(h *handler) { h.allow = allow }
}

type handler struct {
	registry *Registry
	state    func(uuid string) InstanceState
	allow    func(*http.Request) bool
}

// Handler serves POST /os-server-external-events as Nova's API does, at any path,
// and delivers the accepted events to the registry:
//
//   - 400 for the whole request, and nothing is delivered, when the body violates
//     Nova's schema: malformed, other keys, no events, a name that the requested
//     microversion (of either header) does not have, a bad UUID or status. The
//     forms of the specifications need [WithForms].
//   - Otherwise each event gets a code, in this order of checks: 404 unknown
//     instance, 400 missing tag, 422 instance without a host, 200 delivered. The
//     answer repeats the events with their codes and the status of their delivery:
//     an accepted event of status failed is answered completed. The HTTP status is
//     200 when all codes are 200, else 207.
//   - 401 by [WithAuthorize], 405 for other methods, 406 for a microversion outside
//     2.x, 413 for a body of more than 1 MiB, 415 for a content type other than JSON.
//
// An unexpected event is answered 200 too, as Nova answers when it has passed the
// event to the instance's host.
func (r *Registry) Handler(opts ...HandlerOption) http.Handler {
	h := &handler{
		registry: r,
		state:    func(string) InstanceState { return Ready },
		allow:    func(*http.Request) bool { return true },
	}
	for _, o := range opts {
		o(h)
	}
	return h
}

// ServeHTTP answers one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	events, minor, fault := h.accept(w, r)
	if minor > 0 {
		writeVersion(w, r, minor)
	}
	if fault != nil {
		fault.write(w)
		return
	}
	status := http.StatusOK
	var accepted []Event
	for i, e := range events {
		events[i].Code = h.code(e)
		if events[i].Code == http.StatusOK {
			accepted = append(accepted, e.event())
			events[i].Status = StatusCompleted
		} else {
			status = http.StatusMultiStatus
			events[i].Status = StatusFailed
		}
	}
	for _, e := range accepted {
		h.registry.Deliver(e)
	}
	writeJSON(w, status, map[string]any{"events": events})
}

// code checks one event in Nova's order.
func (h *handler) code(e received) int {
	state := h.state(e.ServerUUID)
	switch {
	case state == Unknown:
		return http.StatusNotFound
	case e.Tag == nil && needsTag(e.Name):
		return http.StatusBadRequest
	case state == NoHost:
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// accept checks the request and reads its events.
func (h *handler) accept(w http.ResponseWriter, r *http.Request) ([]received, int, *fault) {
	if !h.allow(r) {
		return nil, 0, &fault{http.StatusUnauthorized, "The request you have made requires authentication."}
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, 0, &fault{http.StatusMethodNotAllowed, "The method is not allowed for this resource."}
	}
	minor, wrong := requestedVersion(r.Header)
	if wrong != nil {
		return nil, 0, wrong
	}
	if !isJSON(r.Header) {
		return nil, minor, &fault{http.StatusUnsupportedMediaType, "Unsupported Content-Type"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, minor, bodyFault(err)
	}
	events, err := h.registry.decodeEvents(body, minor)
	if err != nil {
		return nil, minor, &fault{http.StatusBadRequest, err.Error()}
	}
	return events, minor, nil
}

func bodyFault(err error) *fault {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("Request is too large: more than %d bytes", long.Limit)}
	}
	return &fault{http.StatusBadRequest, fmt.Sprintf("the request body cannot be read: %v", err)}
}

// isJSON accepts what Nova accepts: its two JSON types, and no type or text/plain,
// which old clients send.
func isJSON(h http.Header) bool {
	value := h.Get("Content-Type")
	if value == "" {
		return true
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil {
		return false
	}
	return kind == "application/json" || kind == "application/vnd.openstack.compute+json" || kind == "text/plain"
}

// fault is an error answer in Nova's format.
type fault struct {
	status  int
	message string
}

func (f *fault) write(w http.ResponseWriter) {
	writeJSON(w, f.status, map[string]any{faultNames[f.status]: map[string]any{"code": f.status, "message": f.message}})
}

// faultNames has the keys of error bodies (nova/api/openstack/wsgi.py, Fault).
var faultNames = map[int]string{
	http.StatusBadRequest: "badRequest", http.StatusUnauthorized: "unauthorized", http.StatusMethodNotAllowed: "badMethod",
	http.StatusRequestEntityTooLarge: "overLimit", http.StatusUnsupportedMediaType: "badMediaType", http.StatusNotAcceptable: "computeFault",
}

// writeVersion repeats the microversion, as Nova does on every answer. It repeats
// the word latest, since the handler has no highest version.
func writeVersion(w http.ResponseWriter, r *http.Request, minor int) {
	version := fmt.Sprintf("2.%d", minor)
	if minor > 1<<30 {
		version = "latest"
	}
	w.Header().Set(versionHeader, "compute "+version)
	w.Header().Set(legacyHeader, version)
	w.Header().Set("Vary", versionHeader+", "+legacyHeader)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // cannot happen: strings and numbers only
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has disconnected
}
