package fakecyborg

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
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

// arqPatch is what one PATCH asks of one request.
type arqPatch struct {
	agent.Patch
	setsProject bool // the field project_id is there
}

// parsePatch reads and checks the whole body before anything is done
// (cyborg/api/controllers/v2/arqs.py, _validate_arq_patch): an object of request UUIDs, each
// with a list that is not JSON Patch but only looks so.
func (s *Server) parsePatch(body json.RawMessage, minor int) ([]arqPatch, error) {
	switch jsonKind(body) {
	case '{':
	case '[':
		return nil, store.Refuse(store.Uncoded, "'list' object has no attribute 'items'")
	default:
		return nil, store.Refuse(store.Uncoded, "patch is not an object of ARQ uuids")
	}
	var patches []arqPatch
	for _, m := range membersOf(body) {
		p, err := s.parseARQPatch(m, minor)
		if err != nil {
			return nil, err
		}
		patches = append(patches, p)
	}
	if len(patches) == 0 {
		return nil, store.Refuse(store.Uncoded, "list index out of range")
	}
	return patches, nil
}

// patchOp is one entry of a request's list.
type patchOp struct {
	Path  string          `json:"path"`
	Op    string          `json:"op"`
	Value json.RawMessage `json:"value"`
}

func (s *Server) parseARQPatch(m member, minor int) (arqPatch, error) {
	var ops []patchOp
	if json.Unmarshal(m.value, &ops) != nil || jsonKind(m.value) != '[' {
		return arqPatch{}, store.Refuse(store.Uncoded, "patch of ARQ %s is not a list of objects with path and op", m.key)
	}
	if len(ops) == 0 {
		return arqPatch{}, store.Refuse(store.Uncoded, "list index out of range")
	}
	p := arqPatch{Patch: agent.Patch{ARQ: m.key, Unbind: ops[0].Op == "remove"}}
	for _, op := range ops {
		if op.Op != ops[0].Op || op.Op != "add" && op.Op != "remove" {
			return p, store.BadPatch("Every op must be add or remove")
		}
	}
	values, err := p.collect(ops, minor)
	if err != nil || p.Unbind {
		return p, err
	}
	if err := p.setArgs(values, minor >= projectMinor && s.release.PatchProject == mandatory); err != nil || s.cfg.UpstreamQuirks {
		return p, err
	}
	return p, checkBindArgs(p.Args)
}

// collect checks the paths and keeps the values.
func (p *arqPatch) collect(ops []patchOp, minor int) (map[string]json.RawMessage, error) {
	values := make(map[string]json.RawMessage, len(ops))
	for _, op := range ops {
		field := strings.TrimLeft(op.Path, "/")
		switch {
		case field == fieldProject && minor < projectMinor:
			return nil, tooOld(projectMinor)
		case field == fieldProject:
			p.setsProject = true
		case !slices.Contains([]string{fieldHost, fieldProvider, fieldInstance}, field):
			return nil, store.BadPatch("Invalid path in patch %s", op.Path)
		}
		if op.Value == nil && !p.Unbind {
			return nil, store.Refuse(store.Uncoded, "'value'")
		}
		values[field] = op.Value
	}
	return values, nil
}

// setArgs reads the values of an add, of which the project may be left out if it is not needed.
func (p *arqPatch) setArgs(values map[string]json.RawMessage, needsProject bool) error {
	var absent []string
	for _, field := range []struct {
		name string
		to   *string
	}{{fieldHost, &p.Args.Host}, {fieldProvider, &p.Args.Provider}, {fieldInstance, &p.Args.Instance}, {fieldProject, &p.Args.Project}} {
		raw := values[field.name]
		if jsonKind(raw) == 'n' {
			if field.name != fieldProject || needsProject {
				absent = append(absent, field.name)
			}
			continue
		}
		text, err := scalarText(raw)
		if err != nil {
			return store.BadPatch("%s: %v", field.name, err)
		}
		*field.to = text
	}
	if len(absent) > 0 {
		return store.BadPatch("Fields absent in patch %s", strings.Join(absent, ","))
	}
	return nil
}

// checkBindArgs refuses what upstream stores and then cannot show any more.
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
