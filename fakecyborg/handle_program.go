package fakecyborg

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// patchPath is upstream's pattern of a path in a JSON patch.
var patchPath = regexp.MustCompile(`^(/[\w-]+)+$`)

// internalPaths are the fields of a deployable that a patch may not name.
var internalPaths = []string{"/uuid", "/id", "/links", "/created_at", "/updated_at", "/name", "/num_accelerators"}

// patchOp is one entry of a JSON patch.
type patchOp struct {
	Path  string          `json:"path"`
	Op    string          `json:"op"`
	Value json.RawMessage `json:"value"`
}

// programDeployable writes an image to a deployable through the driver that reported it.
// Upstream does not store which image it was, so that a later bind may take another one for
// being there already, and programs a region that is in use.
func (s *Server) programDeployable(c *simhttp.Call) error {
	id := c.PathValue("id")
	if err := s.authorizeProgram(c, id); err != nil {
		return err
	}
	if err := checkUUID("uuid", id); err != nil {
		return err
	}
	body, err := readBody(c, "program_info")
	if err != nil {
		return err
	}
	image, err := parseProgram(body)
	if err != nil {
		return err
	}
	if err := s.program(c.Context(), id, image, c.Identity.Project, s.authorize(c, ruleDeployableProgram)); err != nil {
		return err
	}
	return s.answerDeployable(c)
}

// program programs a deployable for a project; denied is the error for a caller who may not
// program the regions of others.
func (s *Server) program(ctx context.Context, id, image, project string, denied error) error {
	d, err := store.Find(s.db, func(tx store.Tx) (store.Deployable, error) { return tx.Deployable(id) })
	if err != nil {
		return err
	}
	return s.conductor.Program(ctx, d, image, project, denied)
}

// authorizeProgram lets administrators program, and with RuntimeProgramming the owner of the
// requests that are Bound to the region.
func (s *Server) authorizeProgram(c *simhttp.Call, deployable string) error {
	err := s.authorize(c, ruleDeployableProgram)
	if err == nil || !s.cfg.RuntimeProgramming || c.Identity.SystemScope {
		return err
	}
	if store.Read(s.db, func(tx store.Tx) bool { return tx.OwnedBy(deployable, c.Identity.Project) }) {
		return nil
	}
	return err
}

// parseProgram reads the JSON patch; only its first entry counts.
func parseProgram(body json.RawMessage) (image string, err error) {
	if err := checkJSON(body); err != nil {
		return "", err
	}
	var ops []patchOp
	if jsonKind(body) != '[' || json.Unmarshal(body, &ops) != nil {
		return "", store.Refuse(store.Invalid, "Invalid input for field/attribute program_info. Value: '%s'. Value not a valid list: %s", body, body)
	}
	if len(ops) == 0 {
		return "", store.Refuse(store.Uncoded, "list index out of range")
	}
	for _, op := range ops {
		if err := checkProgramOp(op); err != nil {
			return "", err
		}
	}
	var value []struct {
		Image string `json:"image_uuid"`
	}
	if json.Unmarshal(ops[0].Value, &value) != nil || len(value) == 0 {
		return "", store.Refuse(store.Uncoded, "the value is not a list with an image_uuid")
	}
	image = value[0].Image
	if !uuids.Like(image) {
		return "", store.Refuse(store.Invalid, "Expected a uuid but received %s.", image)
	}
	return image, nil
}

func checkProgramOp(op patchOp) error {
	switch {
	case !patchPath.MatchString(op.Path):
		return store.Refuse(store.Invalid, "Invalid input for field/attribute path. Value: '%s'. Value should match the pattern %s", op.Path, patchPath)
	case !slices.Contains([]string{"add", "replace", "remove"}, op.Op):
		return store.Refuse(store.Invalid, "Invalid input for field/attribute op. Value: '%s'. Value should be one of: add, remove, replace", op.Op)
	case slices.Contains(internalPaths, op.Path):
		return store.Refuse(store.Invalid, "'%s' is an internal attribute and can not be updated", op.Path)
	case op.Op != "remove" && (op.Value == nil || jsonKind(op.Value) == 'n'):
		return store.Refuse(store.Invalid, "'add' and 'replace' operations need a value")
	}
	return nil
}
