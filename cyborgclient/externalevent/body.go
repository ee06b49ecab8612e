package externalevent

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// received is one event of a request or of its answer, which repeats the event
// with its delivery status. Tag is a pointer because Nova distinguishes an absent
// tag from an empty one.
type received struct {
	Name       string  `json:"name"`
	ServerUUID string  `json:"server_uuid"`
	Tag        *string `json:"tag,omitempty"`
	Status     Status  `json:"status"`
	Code       int     `json:"code"`
}

func (e received) event() Event {
	ev := Event{Name: e.Name, ServerUUID: e.ServerUUID, Status: e.Status}
	if e.Tag != nil {
		ev.Tag = *e.Tag
	}
	return ev
}

// object is a JSON object with its keys as written; decoding into a struct would
// ignore their case.
type object map[string]json.RawMessage

// decodeEvents reads a request body by Nova's schema: an object whose only key is a
// non-empty list of events, each with a name of the microversion, a server UUID, and
// optionally a tag and a status.
func (r *Registry) decodeEvents(body []byte, minor int) ([]received, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("malformed request body: not UTF-8")
	}
	root, err := decodeObject(body, "events")
	if err != nil {
		return nil, fmt.Errorf("malformed request body: %w", err)
	}
	var items []json.RawMessage
	if raw := root["events"]; !begins(raw, '[') || json.Unmarshal(raw, &items) != nil {
		return nil, errors.New("the attribute events is missing or not a list")
	}
	if len(items) == 0 {
		return nil, errors.New("the list events is empty")
	}
	events := make([]received, len(items))
	for i, item := range items {
		if events[i], err = r.decodeEvent(item, minor); err != nil {
			return nil, fmt.Errorf("events[%d]: %w", i, err)
		}
	}
	return events, nil
}

// begins reports whether a value is of the type that begins with a character.
func begins(raw json.RawMessage, first byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == first
}

// decodeObject reads an object that has only the allowed keys.
func decodeObject(text []byte, allowed ...string) (object, error) {
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("want an object, got %s", wrong.Value)
		}
		return nil, err
	}
	if o == nil {
		return nil, errors.New("want an object, got null")
	}
	for k := range o {
		if !slices.Contains(allowed, k) {
			return nil, fmt.Errorf("additional property %.40q is not allowed", k)
		}
	}
	return o, nil
}

func (r *Registry) decodeEvent(text []byte, minor int) (received, error) {
	o, err := decodeObject(text, "name", "server_uuid", "tag", "status")
	if err != nil {
		return received{}, err
	}
	var e received
	for _, key := range []string{"name", "server_uuid", "tag", "status"} {
		raw, present := o[key]
		switch {
		case present && !begins(raw, '"'):
			return e, fmt.Errorf("%s is not a string", key)
		case !present && (key == "name" || key == "server_uuid"):
			return e, fmt.Errorf("%s is a required property", key)
		}
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, err
	}
	if _, given := o["status"]; !given {
		e.Status = StatusCompleted
		if e.Name == ARQResolved {
			e.Status = StatusOK
		}
	}
	since, known := nameSince[e.Name]
	if r.accepts(e.Name) {
		since, known = 0, true // the specifications have no microversion
	}
	if !known {
		return e, fmt.Errorf("unknown event name %.60q", e.Name)
	}
	if minor < since {
		return e, fmt.Errorf("event name %q needs the compute API version 2.%d", e.Name, since)
	}
	return e, e.check()
}

// check validates the values against the schema.
func (e received) check() error {
	known := e.Status.Known()
	if e.Name == ARQResolved {
		known = e.Status == StatusOK || e.Status == StatusFailed
	}
	switch {
	case !isUUID(e.ServerUUID):
		return fmt.Errorf("server_uuid %.60q is not a UUID", e.ServerUUID)
	case e.Tag != nil && utf8.RuneCountInString(*e.Tag) > 255:
		return errors.New("tag is longer than 255 characters")
	case !known:
		return fmt.Errorf("unknown status %.60q", string(e.Status))
	}
	return nil
}

// isUUID accepts 32 hexadecimal digits in any case, with the usual dashes or none,
// as Nova's check does.
func isUUID(text string) bool {
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		text = strings.ReplaceAll(text, "-", "")
	}
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == 32
}
