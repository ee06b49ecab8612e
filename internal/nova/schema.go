package nova

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
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

// eventNames lists the kinds of event of a microversion, and the kind of an additional form.
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

// needsTag reports whether the API demands a tag for a kind of event.
func needsTag(name string) bool {
	return name == ARQBound || name == arqResolved || name == arqsBound || name == "volume-extended" || name == "power-update"
}

// readEvents decodes and checks the whole body; one bad event refuses all.
func (s *Server) readEvents(c *simhttp.Call) ([]sim.Event, error) {
	if kind, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";"); kind != "" && !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, simhttp.Refuse(http.StatusUnsupportedMediaType, "Unsupported Content-Type")
	}
	data, err := simhttp.ReadBody(c.Request)
	if errors.Is(err, simhttp.ErrBodyTooLarge) {
		return nil, simhttp.Refuse(http.StatusRequestEntityTooLarge, "Request is too large.")
	}
	if err != nil {
		return nil, simhttp.Refuse(http.StatusBadRequest, "Malformed request body")
	}
	return s.parseEvents(data, c.Minor)
}

//go:embed schemas/*.json
var schemaFiles embed.FS

var loadSchemas = sync.OnceValues(func() (*schema.Set, error) {
	return schema.Load(schemaFiles, "schemas", func(text string) bool { return uuids.Like(text) && !strings.HasPrefix(text, "urn:") })
})

func (s *Server) parseEvents(data []byte, minor int) ([]sim.Event, error) {
	schemas, err := loadSchemas()
	if err != nil {
		return nil, err
	}
	value, err := schema.Decode(data)
	if err != nil {
		return nil, simhttp.Refuse(http.StatusBadRequest, "Malformed request body")
	}
	var violation *schema.Violation
	if err := schemas.In(s.cfg.Release.jsonschema).Validate("events", value); errors.As(err, &violation) {
		return nil, invalid(violation.Path, phrase(violation))
	}
	var body struct{ Events []sim.Event }
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, err
	}
	for i := range body.Events {
		e := &body.Events[i]
		switch {
		case e.ServerUUID == "": // an empty one is refused by the schema
			return nil, invalid([]string{"events", strconv.Itoa(i)}, "'server_uuid' is a required property")
		case e.Name == "":
			return nil, invalid([]string{"events", strconv.Itoa(i)}, "'name' is a required property")
		case e.Status == "" && e.Name == arqResolved:
			e.Status = statusOK
		case e.Status == "":
			e.Status = statusCompleted
		}
		if err := checkEvent(*e, minor, s.cfg.EventForm); err != nil {
			return nil, invalid([]string{"events", strconv.Itoa(i)}, err.Error())
		}
	}
	return body.Events, nil
}

// phrase is that of Python's jsonschema library, and names the limit of a tag.
func phrase(v *schema.Violation) string {
	if v.Keyword == "maxLength" {
		return fmt.Sprintf("tag is longer than %d characters", maxTag)
	}
	return v.Phrase
}

func invalid(path []string, text string) error {
	where := ""
	if len(path) > 0 {
		where = " for field/attribute " + strings.Join(path, "/")
	}
	return simhttp.Refuse(http.StatusBadRequest, "Invalid input%s. %s", where, text)
}

func checkEvent(e sim.Event, minor int, form string) error {
	names := eventNames(minor, form)
	switch {
	case !slices.Contains(names, e.Name):
		return fmt.Errorf("name %q is not one of %q", e.Name, names)
	case e.Name == arqResolved && e.Status != statusOK && e.Status != statusFailed:
		return fmt.Errorf("status %q is not one of ['ok', 'failed']", e.Status)
	case e.Name != arqResolved && !slices.Contains([]string{statusFailed, statusCompleted, statusInProgress}, e.Status):
		return fmt.Errorf("status %q is not one of ['failed', 'completed', 'in-progress']", e.Status)
	}
	return nil
}
