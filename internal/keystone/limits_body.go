package keystone

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// The fields that a client may set, and those it must
// (keystone/limit/schema.py).
var (
	registeredFields  = limitFields{"default_limit", []string{"service_id", "region_id", "resource_name", "default_limit", "description"}}
	limitOfProject    = limitFields{"resource_limit", []string{"project_id", "domain_id", "service_id", "region_id", "resource_name", "resource_limit", "description"}}
	limitUpdateFields = limitFields{"resource_limit", []string{"resource_limit", "description"}}
)

// limitFields are the fields of one kind of body; amount is that of the limit.
type limitFields struct {
	amount string
	names  []string
}

// limitInput is one object of a request, checked.
type limitInput struct {
	given                        map[string]bool
	service, resource            string
	region, project, domain, why *string
	amount                       int
}

var limitID = regexp.MustCompile(`^[a-zA-Z0-9-]{1,64}$`)

const (
	maxLimit        = math.MaxInt32
	maxResourceName = 255
)

// readLimits reads the list under a key: {"limits": [{...}]}.
func readLimits(r *http.Request, key string, fields limitFields, required ...string) ([]limitInput, *requestError) {
	raw, err := readMember(r, key)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, invalidField(key, "is not of type 'array'")
	}
	if len(list) == 0 {
		return nil, invalidField(key, "is too short")
	}
	inputs := make([]limitInput, 0, len(list))
	for _, object := range list {
		in, err := fields.read(object)
		if err != nil {
			return nil, err
		}
		for _, name := range required {
			if !in.given[name] {
				return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("'%s' is a required property", name)}
			}
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// readMember reads the body and takes one member of it.
func readMember(r *http.Request, key string) (json.RawMessage, *requestError) {
	data, err := simhttp.ReadBody(r)
	if errors.Is(err, simhttp.ErrBodyTooLarge) {
		return nil, &requestError{http.StatusRequestEntityTooLarge, "Request is too large."}
	}
	var body map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &body) != nil {
		return nil, &requestError{http.StatusBadRequest, "Malformed JSON in request body."}
	}
	raw, ok := body[key]
	if !ok {
		return nil, malformed(key, "request body")
	}
	return raw, nil
}

func invalidField(name, problem string) *requestError {
	return &requestError{http.StatusBadRequest, fmt.Sprintf("Invalid input for field '%s': %s.", name, problem)}
}

// read checks one object against its schema.
func (f limitFields) read(object json.RawMessage) (limitInput, *requestError) {
	in := limitInput{given: map[string]bool{}}
	var values map[string]json.RawMessage
	if json.Unmarshal(object, &values) != nil || values == nil {
		return in, &requestError{http.StatusBadRequest, "The limit is not of type 'object'."}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // of several faults always the same is told
		raw := values[name]
		if !slices.Contains(f.names, name) {
			return in, &requestError{http.StatusBadRequest, fmt.Sprintf("Additional properties are not allowed ('%s' was unexpected)", clip(name))}
		}
		in.given[name] = true
		var err *requestError
		if name == f.amount {
			in.amount, err = limitAmount(name, raw)
		} else {
			err = in.setText(name, raw)
		}
		if err != nil {
			return in, err
		}
	}
	return in, nil
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), 80)], "") }

func limitAmount(name string, raw json.RawMessage) (int, *requestError) {
	var n int
	switch {
	case json.Unmarshal(raw, &n) != nil || string(raw) == "null":
		return 0, invalidField(name, "is not of type 'integer'")
	case n < -1:
		return 0, invalidField(name, fmt.Sprintf("%d is less than the minimum of -1", n))
	case n > maxLimit:
		return 0, invalidField(name, fmt.Sprintf("%d is greater than the maximum of %d", n, maxLimit))
	}
	return n, nil
}

// setText takes a text field; null is as good as absent where it may be.
func (in *limitInput) setText(name string, raw json.RawMessage) *requestError {
	var value *string
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		if name == "service_id" || name == "resource_name" {
			return invalidField(name, "None is not of type 'string'")
		}
	} else if json.Unmarshal(raw, &value) != nil {
		return invalidField(name, "is not of type 'string'")
	}
	switch {
	case strings.HasSuffix(name, "_id") && name != "region_id" && value != nil && !limitID.MatchString(*value):
		return invalidField(name, fmt.Sprintf("'%s' does not match '^[a-zA-Z0-9-]+$'", clip(*value)))
	case name == "resource_name" && (*value == "" || len(*value) > maxResourceName):
		return invalidField(name, fmt.Sprintf("it has %d characters, want 1 to %d", len(*value), maxResourceName))
	}
	switch name {
	case "service_id":
		in.service = *value
	case "resource_name":
		in.resource = *value
	case "region_id":
		in.region = value
	case "project_id":
		in.project = value
	case "domain_id":
		in.domain = value
	case "description":
		in.why = value
	}
	return nil
}

// exists refuses a limit of a service, region or project that is not there.
func (s *Server) exists(in limitInput, target string) *requestError {
	if field := s.dangling(in); field != "" {
		return malformed(field, target)
	}
	return nil
}

// dangling names the field that refers to nothing, if one does.
func (s *Server) dangling(in limitInput) string {
	switch {
	case in.given["service_id"] && !s.hasService(in.service):
		return "service_id"
	case in.region != nil && *in.region != s.cfg.Region:
		return "region_id"
	case in.domain != nil && *in.domain != domainID:
		return "domain_id"
	}
	if in.project != nil {
		if _, ok := s.directory.findProject(projectRef{ID: *in.project}); !ok {
			return "project_id"
		}
	}
	return ""
}
