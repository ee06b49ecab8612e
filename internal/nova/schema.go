package nova

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// ARQBound is the name of the event that Cyborg sends.
const ARQBound = "accelerator-request-bound"

// The names of the event in the specifications; see the constants EventForm.
const (
	arqResolved = "arq_resolved"
	arqsBound   = "accelerator-requests-bound"
)

// The values of an event's status.
const (
	statusOK         = "ok" // of arqResolved only
	statusCompleted  = "completed"
	statusFailed     = "failed"
	statusInProgress = "in-progress"
)

const maxTag = 255

func tagOf(e sim.Event) string {
	if e.Tag == nil {
		return ""
	}
	return *e.Tag
}

// eventNames lists the kinds of event that a microversion knows, and that of a form
// beside the shipped one.
func eventNames(minor int, form string) []string {
	names := []string{"network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"}
	for _, later := range []struct {
		minor int
		name  string
	}{{minorVolume, "volume-extended"}, {minorPower, "power-update"}, {minorAccelerator, ARQBound}, {minorVolumeReimage, "volume-reimaged"}} {
		if minor >= later.minor {
			names = append(names, later.name)
		}
	}
	switch form {
	case EventFormTrain:
		names = append(names, arqResolved)
	case EventFormUssuri:
		names = append(names, arqsBound)
	}
	return names
}

// needsTag tells whether the API demands a tag for a kind of event.
func needsTag(name string) bool {
	return name == ARQBound || name == arqResolved || name == arqsBound || name == "volume-extended" || name == "power-update"
}

// readEvents decodes and judges the whole body; one bad event refuses all.
func readEvents(c *simhttp.Call, form string) ([]sim.Event, error) {
	if kind, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";"); kind != "" && !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, simhttp.Refuse(http.StatusUnsupportedMediaType, "Unsupported Content-Type")
	}
	data, err := simhttp.ReadBody(c.Request)
	if errors.Is(err, simhttp.ErrBodyTooLarge) {
		return nil, simhttp.Refuse(http.StatusRequestEntityTooLarge, "Request is too large.")
	}
	if err != nil || !json.Valid(data) {
		return nil, simhttp.Refuse(http.StatusBadRequest, "Malformed request body")
	}
	return parseEvents(data, c.Minor, form)
}

func parseEvents(data []byte, minor int, form string) ([]sim.Event, error) {
	body, err := object(data, "events")
	if err != nil {
		return nil, invalid("", err)
	}
	var items []json.RawMessage
	switch raw, ok := body["events"]; {
	case !ok:
		return nil, invalid("", errors.New("'events' is a required property"))
	case json.Unmarshal(raw, &items) != nil || items == nil:
		return nil, invalid("events", errors.New("it is not of type 'array'"))
	case len(items) == 0:
		return nil, invalid("events", errors.New("[] should be non-empty"))
	}
	events := make([]sim.Event, 0, len(items))
	for i, item := range items {
		event, err := parseEvent(item, minor, form)
		if err != nil {
			return nil, invalid(fmt.Sprint("events/", i), err)
		}
		events = append(events, event)
	}
	return events, nil
}

func invalid(where string, err error) error {
	if where != "" {
		where = " for field/attribute " + where
	}
	return simhttp.Refuse(http.StatusBadRequest, "Invalid input%s. %v", where, err)
}

func parseEvent(data []byte, minor int, form string) (sim.Event, error) {
	fields, err := object(data, "name", "server_uuid", "tag", "status")
	if err != nil {
		return sim.Event{}, err
	}
	event := sim.Event{Status: statusCompleted}
	for _, field := range []struct {
		name  string
		value *string
	}{{"server_uuid", &event.ServerUUID}, {"name", &event.Name}, {"status", &event.Status}} {
		raw, given := fields[field.name]
		if !given && field.name != "status" {
			return sim.Event{}, fmt.Errorf("'%s' is a required property", field.name)
		}
		if given && !isString(raw, field.value) {
			return sim.Event{}, fmt.Errorf("%s is not of type 'string'", field.name)
		}
	}
	if _, given := fields["status"]; !given && event.Name == arqResolved {
		event.Status = statusOK
	}
	if raw, given := fields["tag"]; given {
		event.Tag = new(string)
		if !isString(raw, event.Tag) {
			return sim.Event{}, errors.New("tag is not of type 'string'")
		}
	}
	return event, checkEvent(event, minor, form)
}

func checkEvent(e sim.Event, minor int, form string) error {
	names := eventNames(minor, form)
	switch {
	case !simhttp.IsUUIDLike(e.ServerUUID) || strings.HasPrefix(e.ServerUUID, "urn:"):
		return fmt.Errorf("server_uuid %q is not a 'uuid'", e.ServerUUID)
	case !slices.Contains(names, e.Name):
		return fmt.Errorf("name %q is not one of %q", e.Name, names)
	case e.Name == arqResolved && e.Status != statusOK && e.Status != statusFailed:
		return fmt.Errorf("status %q is not one of ['ok', 'failed']", e.Status)
	case e.Name != arqResolved && !slices.Contains([]string{statusFailed, statusCompleted, statusInProgress}, e.Status):
		return fmt.Errorf("status %q is not one of ['failed', 'completed', 'in-progress']", e.Status)
	case len([]rune(tagOf(e))) > maxTag:
		return fmt.Errorf("tag is longer than %d characters", maxTag)
	}
	return nil
}

// schemaError has the very text of Nova's validator, which starts with a capital.
type schemaError string

// Error implements error.
func (e schemaError) Error() string { return string(e) }

// object decodes a JSON object and refuses keys that are not allowed, exact in case.
func object(data []byte, allowed ...string) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&fields); err != nil || fields == nil {
		return nil, errors.New("it is not of type 'object'")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("it is followed by something else")
	}
	for key := range fields {
		if !slices.Contains(allowed, key) {
			return nil, schemaError(fmt.Sprintf("Additional properties are not allowed (%q was unexpected)", key))
		}
	}
	return fields, nil
}

func isString(raw json.RawMessage, value *string) bool {
	return raw[0] == '"' && json.Unmarshal(raw, value) == nil
}
