package fakecyborg

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// patchPath is upstream's pattern of a path in a JSON patch.
var patchPath = regexp.MustCompile(`^(/[\w-]+)+$`)

// internalPaths are the fields of a deployable that a patch may not name.
var internalPaths = []string{"/uuid", "/id", "/links", "/created_at", "/updated_at", "/name", "/num_accelerators"}

// programDeployable writes an image to a deployable through the driver that reported it.
// Upstream does not store the image, so a later bind may assume that another image is loaded. It
// also programs a region that is in use.
func (s *Server) programDeployable(c *simhttp.Call) error {
	id := c.PathValue("id")
	if err := checkUUID("uuid", id); err != nil {
		return err
	}
	body, err := s.readBody(c, "program_info")
	if err != nil {
		return err
	}
	image, err := parseProgram(body)
	if err != nil {
		return err
	}
	if err := s.program(c.Context(), id, image, c.Identity.Project, s.authorize(c)); err != nil {
		return err
	}
	return s.answerDeployable(c)
}

// program programs a deployable for a project; denied is the error for a caller who may not
// program regions of other projects.
func (s *Server) program(ctx context.Context, id, image, project string, denied error) error {
	d, err := store.Find(s.db, func(tx store.Tx) (store.Deployable, error) { return tx.Deployable(id) })
	if err != nil {
		return err
	}
	return s.conductor.Program(ctx, d, image, project, denied)
}

// programsOwn reports whether a call programs a region to which requests of the caller's project are Bound, which
// RuntimeProgramming allows without the role.
func (s *Server) programsOwn(c *simhttp.Call) bool {
	return c.Route.Operation == fault.DeployableProgram && s.cfg.RuntimeProgramming && !c.Identity.SystemScope &&
		store.Read(s.db, func(tx store.Tx) bool { return tx.OwnedBy(c.PathValue("id"), c.Identity.Project) })
}

// parseProgram reads the JSON patch as WSME does; only its first entry counts.
func parseProgram(body json.RawMessage) (image string, err error) {
	if kind := jsonKind(body); kind != '[' && kind != 'n' {
		return "", badArgument("program_info", str(body), "Value not a valid list: "+str(body))
	}
	for _, op := range itemsOf(body) {
		if err := checkProgramOp(op); err != nil {
			return "", err
		}
	}
	value := body
	for _, step := range []func(json.RawMessage) (json.RawMessage, error){first, memberOf("value"), first, memberOf("image_uuid")} {
		if value, err = step(value); err != nil {
			return "", err
		}
	}
	if image = str(value); !uuids.Like(image) {
		return "", store.Refuse(store.Invalid, "Expected a uuid but received %s.", image)
	}
	return image, nil
}

// checkProgramOp checks an entry of the patch (cyborg/api/controllers/types.py).
func checkProgramOp(op json.RawMessage) error {
	if jsonKind(op) == 'n' {
		return nil
	}
	if jsonKind(op) != '{' {
		return noAttribute(op, "keys")
	}
	values := make(map[string]json.RawMessage)
	var unknown []string
	for _, m := range membersOf(op) {
		values[m.key] = m.value
		if !slices.Contains([]string{"path", "op", "value"}, m.key) {
			unknown = append(unknown, m.key)
		}
	}
	if len(unknown) > 0 {
		return store.Refuse(store.Invalid, "Unknown attribute for argument program_info: %s", strings.Join(unknown, ", "))
	}
	for _, name := range []string{"path", "op"} {
		if values[name] == nil {
			return badArgument(name, "None", "Mandatory field missing.")
		}
	}
	return checkProgramValues(values["path"], values["op"], values["value"] != nil)
}

func checkProgramValues(path, op json.RawMessage, hasValue bool) error {
	switch kind := jsonKind(path); {
	case kind == 'n':
	case kind != '"':
		return badArgument("path", str(path), "Value should be string")
	case !patchPath.MatchString(textOf(path)):
		return badArgument("path", textOf(path), "Value should match the pattern "+patchPath.String())
	}
	if jsonKind(op) != 'n' && !slices.Contains([]string{`"add"`, `"replace"`, `"remove"`}, string(op)) {
		return badArgument("op", str(op), "Value should be one of: add, remove, replace")
	}
	if jsonKind(path) == 'n' {
		return noAttribute(path, "split")
	}
	field := "/" + strings.Split(textOf(path), "/")[1]
	switch {
	case slices.Contains(internalPaths, field):
		return store.Refuse(store.Invalid, "'%s' is an internal attribute and can not be updated", textOf(path))
	case textOf(op) != "remove" && !hasValue:
		return store.Refuse(store.Invalid, "'add' and 'replace' operations need a value")
	}
	return nil
}

// memberOf is the step value[key].
func memberOf(key string) func(json.RawMessage) (json.RawMessage, error) {
	return func(value json.RawMessage) (json.RawMessage, error) { return subscript(value).at(key) }
}
