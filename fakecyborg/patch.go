package fakecyborg

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
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
	arq     string
	remove  bool
	args    bindArgs
	project bool // the field project_id is there
}

// parsePatch reads and checks the whole body before anything is done
// (cyborg/api/controllers/v2/arqs.py, _validate_arq_patch): an object of
// request uuids, each with a list that is not JSON Patch but only looks so.
func parsePatch(body []byte, minor int, cfg Config) ([]arqPatch, error) {
	switch jsonKind(body) {
	case '{':
	case '[':
		if !json.Valid(body) {
			return nil, errJSON
		}
		return nil, refuse(kindUncoded, "'list' object has no attribute 'items'")
	default:
		if len(body) == 0 || !json.Valid(body) {
			return nil, errJSON
		}
		return nil, refuse(kindUncoded, "patch is not an object of ARQ uuids")
	}
	members, err := decodeObject(body)
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, refuse(kindUncoded, "list index out of range")
	}
	patches := make([]arqPatch, 0, len(members))
	for _, m := range members {
		p, err := parseARQPatch(m, minor, cfg)
		if err != nil {
			return nil, err
		}
		patches = append(patches, p)
	}
	return patches, nil
}

// patchOp is one entry of a request's list.
type patchOp struct {
	Path  string          `json:"path"`
	Op    string          `json:"op"`
	Value json.RawMessage `json:"value"`
}

func parseARQPatch(m member, minor int, cfg Config) (arqPatch, error) {
	var ops []patchOp
	if json.Unmarshal(m.value, &ops) != nil || jsonKind(m.value) != '[' {
		return arqPatch{}, refuse(kindUncoded, "patch of ARQ %s is not a list of objects with path and op", m.key)
	}
	if len(ops) == 0 {
		return arqPatch{}, refuse(kindUncoded, "list index out of range")
	}
	p := arqPatch{arq: m.key, remove: ops[0].Op == "remove"}
	for _, op := range ops {
		if op.Op != ops[0].Op || op.Op != "add" && op.Op != "remove" {
			return p, badPatch("Every op must be add or remove")
		}
	}
	values, err := p.collect(ops, minor)
	if err != nil || p.remove {
		return p, err
	}
	return p, p.fill(values, minor, cfg)
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
			p.project = true
		case !slices.Contains([]string{fieldHost, fieldProvider, fieldInstance}, field):
			return nil, badPatch("Invalid path in patch %s", op.Path)
		}
		if op.Value == nil && !p.remove {
			return nil, refuse(kindUncoded, "'value'")
		}
		values[field] = op.Value
	}
	return values, nil
}

// fill reads the values of an add.
func (p *arqPatch) fill(values map[string]json.RawMessage, minor int, cfg Config) error {
	var absent []string
	for _, field := range []struct {
		name string
		to   *string
	}{{fieldHost, &p.args.host}, {fieldProvider, &p.args.provider}, {fieldInstance, &p.args.instance}, {fieldProject, &p.args.project}} {
		raw := values[field.name]
		if jsonKind(raw) == 'n' {
			if field.name != fieldProject || cfg.zed() && minor >= projectMinor {
				absent = append(absent, field.name)
			}
			continue
		}
		text, err := scalarText(raw)
		if err != nil {
			return badPatch("%s: %v", field.name, err)
		}
		*field.to = text
	}
	if len(absent) > 0 {
		return badPatch("Fields absent in patch %s", strings.Join(absent, ","))
	}
	if cfg.UpstreamQuirks {
		return nil
	}
	return p.args.check()
}

// check refuses what upstream stores and then cannot show any more.
func (b bindArgs) check() error {
	switch {
	case b.host == "" || len(b.host) > maxName:
		return badPatch("hostname has %d characters, want 1 to %d", len(b.host), maxName)
	case !simhttp.IsUUIDLike(b.provider):
		return badPatch("device_rp_uuid: Expected a uuid but received %s.", b.provider)
	case !simhttp.IsUUIDLike(b.instance):
		return badPatch("instance_uuid: Expected a uuid but received %s.", b.instance)
	case len(b.project) > maxName:
		return badPatch("project_id has more than %d characters", maxName)
	}
	return nil
}

// tooOld refuses what needs a newer microversion.
func tooOld(minor int) error {
	return refuse(kindVersion, "Request not acceptable. The minimal required API version should be 2.%d", minor)
}
