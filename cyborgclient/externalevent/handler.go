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

// Handler serves POST /os-server-external-events as Nova's API does, at any path,
// and delivers the accepted events to the registry:
//
//   - 400 for the whole request, and nothing is delivered, when the body violates
//     Nova's schema: malformed, other keys, no events, a name that the requested
//     microversion (of either header) does not have, a bad UUID or status.
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
func (r *Registry) Handler() http.Handler { return http.HandlerFunc(r.serve) }

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	events, minor, fault := r.read(w, req)
	if minor > 0 {
		writeVersion(w, minor)
	}
	if fault != nil {
		fault.write(w)
		return
	}
	status := http.StatusOK
	var accepted []Event
	for i, e := range events {
		events[i].Code = r.code(e)
		if events[i].Code == http.StatusOK {
			accepted = append(accepted, e.event())
			events[i].Status = StatusCompleted
		} else {
			status = http.StatusMultiStatus
			events[i].Status = StatusFailed
		}
	}
	for _, e := range accepted {
		r.Deliver(e)
	}
	writeJSON(w, status, map[string]any{"events": events})
}

// code checks one event in Nova's order.
func (r *Registry) code(e received) int {
	known, hasHost := true, true
	if r.instances != nil {
		var host string
		host, known = r.instances(e.ServerUUID)
		hasHost = host != ""
	}
	switch {
	case !known:
		return http.StatusNotFound
	case e.Tag == nil && needsTag(e.Name):
		return http.StatusBadRequest
	case !hasHost:
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// read checks a request and returns its events and its minor microversion.
func (r *Registry) read(w http.ResponseWriter, req *http.Request) ([]received, int, *fault) {
	if r.authorize != nil && !r.authorize(req) {
		return nil, 0, &fault{http.StatusUnauthorized, "The request you have made requires authentication."}
	}
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, 0, &fault{http.StatusMethodNotAllowed, "The method is not allowed for this resource."}
	}
	minor, wrong := requestedVersion(req.Header)
	if wrong != nil {
		return nil, 0, wrong
	}
	if !isJSON(req.Header) {
		return nil, minor, &fault{http.StatusUnsupportedMediaType, "Unsupported Content-Type"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return nil, minor, bodyFault(err)
	}
	events, err := r.decodeEvents(body, minor)
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
func writeVersion(w http.ResponseWriter, minor int) {
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
