package fakecyborg

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// patchPath is upstream's pattern of a path in a JSON patch.
var patchPath = regexp.MustCompile(`^(/[\w-]+)+$`)

// internalPaths are the fields of a deployable that a patch may not name.
var internalPaths = []string{"/uuid", "/id", "/links", "/created_at", "/updated_at", "/name", "/num_accelerators"}

// programDeployable writes an image to a deployable through the driver that
// reported it. Upstream does not remember which image it was, so that a later
// bind may take another one for being there already, and programs a region
// whoever uses it.
func (s *Server) programDeployable(r request) (int, any, error) {
	id := r.PathValue("id")
	if err := checkUUID("uuid", id); err != nil {
		return 0, nil, err
	}
	body, err := readBody(r, "program_info")
	if err != nil {
		return 0, nil, err
	}
	if err := s.authorizeProgram(r.caller, id); err != nil {
		return 0, nil, err
	}
	image, err := parseProgram(body)
	if err != nil {
		return 0, nil, err
	}
	if err := s.program(r.Context(), r.caller, id, image); err != nil {
		return 0, nil, err
	}
	answer, err := s.deployableBody(r, id)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, answer, nil
}

func (s *Server) program(ctx context.Context, c caller, id, image string) error {
	var d store.Deployable
	var err error
	s.db.View(func(tx store.Tx) { d, err = tx.Deployable(id) })
	if err != nil {
		return err
	}
	return s.conductor.Program(ctx, d, image, c.Project, s.authorize(c, rulePartProgram))
}

// authorizeProgram lets administrators program, and with RuntimeProgramming the
// owner of the requests that are Bound to the region.
func (s *Server) authorizeProgram(c caller, deployable string) error {
	err := s.authorize(c, rulePartProgram)
	if err == nil || !s.cfg.RuntimeProgramming || c.SystemScope {
		return err
	}
	s.db.View(func(tx store.Tx) {
		if tx.OwnedBy(deployable, c.Project) {
			err = nil
		}
	})
	return err
}

// parseProgram reads the JSON patch; only its first entry counts.
func parseProgram(body []byte) (image string, err error) {
	if !json.Valid(body) {
		return "", errJSON
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
	if !store.IsUUID(value[0].Image) {
		return "", store.Refuse(store.Invalid, "Expected a uuid but received %s.", value[0].Image)
	}
	return value[0].Image, nil
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
