package fakecyborg

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// The fields that a PATCH may set, in the order in which upstream names the
// missing ones.
const (
	fieldHost     = "hostname"
	fieldProvider = "device_rp_uuid"
	fieldInstance = "instance_uuid"
	fieldProject  = "project_id"
)

// projectMinor is the microversion since which a PATCH may carry project_id.
const projectMinor = 1

// parsePatch reads and checks the whole body before anything is done
// (cyborg/api/controllers/v2/arqs.py, _validate_arq_patch): an object of request UUIDs, each with
// a list that looks like JSON Patch but is not.
func (s *Server) parsePatch(c *simhttp.Call, body json.RawMessage) ([]agent.Patch, error) {
	if jsonKind(body) != '{' {
		return nil, noAttribute(body, "items")
	}
	var patches []agent.Patch
	for _, m := range membersOf(body) {
		p, err := s.parseARQPatch(c, m)
		if err != nil {
			return nil, err
		}
		patches = append(patches, p)
	}
	if len(patches) == 0 {
		return nil, raised("list index out of range")
	}
	return patches, nil
}

func (s *Server) parseARQPatch(c *simhttp.Call, m member) (p agent.Patch, err error) {
	p.ARQ = m.key
	items, err := iterate(m.value)
	if err != nil {
		return p, err
	}
	ops := make([]subscripted, 0, len(items))
	for _, item := range items {
		ops = append(ops, subscript(item))
	}
	adds, err := every(ops, "add")
	if err != nil {
		return p, err
	}
	if !adds {
		if p.Unbind, err = every(ops, "remove"); err != nil {
			return p, err
		}
		if !p.Unbind {
			return p, store.BadPatch("Every op must be add or remove")
		}
	}
	values := make(map[string]json.RawMessage, len(ops))
	for _, op := range ops {
		field, err := s.patchedField(c, op)
		if err == nil && adds {
			values[field], err = op.at("value")
		}
		if err != nil {
			return p, err
		}
	}
	if _, err := first(m.value); err != nil || p.Unbind { // an empty list fails only here
		return p, err
	}
	return p, setArgs(&p.Args, values, c.Minor >= projectMinor && s.release.PatchProject == mandatory)
}

// every reports whether the entries of a patch have one op, as far as upstream looks: to the first that has not.
func every(ops []subscripted, op string) (bool, error) {
	for _, entry := range ops {
		value, err := entry.at("op")
		if err != nil {
			return false, err
		}
		if textOf(value) != op {
			return false, nil
		}
	}
	return true, nil
}

// patchedField is the field that an entry of a patch names, which the caller may set.
func (s *Server) patchedField(c *simhttp.Call, entry subscripted) (string, error) {
	path, err := entry.at("path")
	if err != nil {
		return "", err
	}
	if jsonKind(path) != '"' {
		return "", noAttribute(path, "lstrip")
	}
	field := strings.TrimLeft(textOf(path), "/")
	switch {
	case field == fieldProject && c.Minor < projectMinor:
		return "", tooOld(projectMinor)
	case field == fieldProject && s.release.PatchProject == adminsOnly && !s.isAdmin(c):
		return "", store.Denied(s.policies[c.Route.Operation].rule)
	case !slices.Contains([]string{fieldHost, fieldProvider, fieldInstance, fieldProject}, field):
		return "", store.BadPatch("Invalid path in patch %s", textOf(path))
	}
	return field, nil
}

// setArgs reads the values of an add. The project may be absent unless it is needed.
func setArgs(args *store.BindArgs, values map[string]json.RawMessage, needsProject bool) error {
	var absent []string
	for _, field := range []struct {
		name string
		to   *string
	}{{fieldHost, &args.Host}, {fieldProvider, &args.Provider}, {fieldInstance, &args.Instance}, {fieldProject, &args.Project}} {
		raw := values[field.name]
		if field.name == fieldProject && !needsProject && !truthy(raw) {
			raw = nil
		}
		if jsonKind(raw) == 'n' {
			if field.name != fieldProject || needsProject {
				absent = append(absent, field.name)
			}
			continue
		}
		var err error
		if *field.to, err = textField(member{field.name, raw}); err != nil {
			return err
		}
	}
	if len(absent) > 0 {
		return store.BadPatch("Fields absent in patch %s", strings.Join(absent, ","))
	}
	return nil
}

// checkBindArgs refuses values that upstream stores and then cannot show.
func checkBindArgs(b store.BindArgs) error {
	switch {
	case b.Host == "" || len(b.Host) > store.MaxName:
		return store.BadPatch("hostname has %d characters, want 1 to %d", len(b.Host), store.MaxName)
	case !uuids.Like(b.Provider):
		return store.BadPatch("device_rp_uuid: Expected a uuid but received %s.", b.Provider)
	case !uuids.Like(b.Instance):
		return store.BadPatch("instance_uuid: Expected a uuid but received %s.", b.Instance)
	case len(b.Project) > store.MaxName:
		return store.BadPatch("project_id has more than %d characters", store.MaxName)
	}
	return nil
}

// tooOld refuses what needs a newer microversion.
func tooOld(minor int) error {
	return store.Refuse(store.Version, "Request not acceptable. The minimal required API version should be 2.%d", minor)
}
