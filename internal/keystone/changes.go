package keystone

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// change notes a token by its audit id: the token itself is a secret.
func (t *token) change(action string) sim.Change {
	what := "of user " + t.user.name
	switch {
	case t.project != nil:
		what += " on project " + t.project.name
	case t.system:
		what += " on the system"
	}
	return sim.Change{Action: action, Kind: "token", ID: t.auditIDs[0], What: what}
}

// change notes an application credential. Its end is that of the tokens it gave.
func (c *credential) change(action string) sim.Change {
	return sim.Change{Action: action, Kind: "application_credential", ID: c.id, What: c.name + " of user " + c.user.name + " on project " + c.project.name}
}

func (l registeredLimit) note(r *http.Request, action string) {
	simhttp.Note(r.Context(), sim.Change{Action: action, Kind: "registered_limit", ID: l.ID, What: fmt.Sprintf("%s %d by default", l.ResourceName, l.DefaultLimit)})
}

func (l projectLimit) note(r *http.Request, action string) {
	owner := "project " + text(l.ProjectID)
	if l.DomainID != nil {
		owner = "domain " + *l.DomainID
	}
	simhttp.Note(r.Context(), sim.Change{Action: action, Kind: "limit", ID: l.ID, What: fmt.Sprintf("%s %d for %s", l.ResourceName, l.ResourceLimit, owner)})
}

// noteSteps notes which fields of a limit have changed.
func noteSteps(r *http.Request, kind, id string, before, after any) {
	notes := simhttp.NotesOf(r.Context())
	if notes == nil {
		return
	}
	was, is := fieldsOf(before), fieldsOf(after)
	var steps []simhttp.Step
	for _, name := range slices.Sorted(maps.Keys(is)) {
		steps = append(steps, simhttp.Step{Name: name, From: was[name], To: is[name]})
	}
	notes.AddSteps(kind, id, is["resource_name"], steps...)
}

// fieldsOf are the fields of a limit as text; null is empty and an empty text a pair of
// quotes.
func fieldsOf(limit any) map[string]string {
	data, err := json.Marshal(limit)
	if err != nil { // structs of text and numbers always encode
		return nil
	}
	var values map[string]any
	if json.Unmarshal(data, &values) != nil {
		return nil
	}
	fields := make(map[string]string, len(values))
	for name, value := range values {
		if value != nil {
			fields[name] = cmp.Or(fmt.Sprint(value), `""`)
		}
	}
	return fields
}

func noteDeleted(r *http.Request, kind string) {
	simhttp.Note(r.Context(), sim.Change{Action: sim.Deleted, Kind: kind, ID: r.PathValue("id")})
}
