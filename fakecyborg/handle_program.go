package fakecyborg

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
)

// patchPath is upstream's pattern of a path in a JSON patch.
var patchPath = regexp.MustCompile(`^(/[\w-]+)+$`)

// internalPaths are the fields of a deployable that a patch may not name.
var internalPaths = []string{"/uuid", "/id", "/links", "/created_at", "/updated_at", "/name", "/num_accelerators"}

// programDeployable writes an image to a deployable through the driver that
// reported it. Upstream does not remember which image it was, so that a later
// bind may take another one for being there already.
func (s *Server) programDeployable(r request) (int, any, error) {
	id := r.PathValue("id")
	if err := checkUUID("uuid", id); err != nil {
		return 0, nil, err
	}
	body, err := readBody(r, "program_info")
	if err != nil {
		return 0, nil, err
	}
	if err := s.authorize(r.caller, rulePartProgram); err != nil {
		return 0, nil, err
	}
	image, err := parseProgram(body)
	if err != nil {
		return 0, nil, err
	}
	s.mu.RLock()
	part, err := s.findDeployable(id)
	if err != nil {
		s.mu.RUnlock()
		return 0, nil, err
	}
	host, source, path := part.device.host, part.device.source, part.device.spec.ControlPath
	s.mu.RUnlock()
	if err := s.program(s.life, host, source, path, image); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cfg.UpstreamQuirks {
		part.bitstream, part.updated = image, s.clock.Now()
	}
	return http.StatusOK, r.links.deployable(part), nil
}

// parseProgram reads the JSON patch; only its first entry counts.
func parseProgram(body []byte) (image string, err error) {
	if !json.Valid(body) {
		return "", errJSON
	}
	var ops []patchOp
	if jsonKind(body) != '[' || json.Unmarshal(body, &ops) != nil {
		return "", refuse(kindInvalid, "Invalid input for field/attribute program_info. Value: '%s'. Value not a valid list: %s", body, body)
	}
	if len(ops) == 0 {
		return "", refuse(kindUncoded, "list index out of range")
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
		return "", refuse(kindUncoded, "the value is not a list with an image_uuid")
	}
	if !isUUID(value[0].Image) {
		return "", refuse(kindInvalid, "Expected a uuid but received %s.", value[0].Image)
	}
	return value[0].Image, nil
}

func checkProgramOp(op patchOp) error {
	switch {
	case !patchPath.MatchString(op.Path):
		return refuse(kindInvalid, "Invalid input for field/attribute path. Value: '%s'. Value should match the pattern %s", op.Path, patchPath)
	case !slices.Contains([]string{"add", "replace", "remove"}, op.Op):
		return refuse(kindInvalid, "Invalid input for field/attribute op. Value: '%s'. Value should be one of: add, remove, replace", op.Op)
	case slices.Contains(internalPaths, op.Path):
		return refuse(kindInvalid, "'%s' is an internal attribute and can not be updated", op.Path)
	case op.Op != "remove" && (op.Value == nil || jsonKind(op.Value) == 'n'):
		return refuse(kindInvalid, "'add' and 'replace' operations need a value")
	}
	return nil
}

// program reads the image and hands it to the driver.
func (s *Server) program(ctx context.Context, host, source string, path driver.ControlPath, image string) error {
	fail := func(err error) error {
		return refuse(kindServer, "FPGA programming failed: host %s, device %s, image %s: %v", host, path.Key(), image, err)
	}
	d, err := s.driverOf(host, source)
	if err != nil {
		return fail(err)
	}
	programmer, ok := d.(driver.Programmer)
	if !ok {
		return fail(fmt.Errorf("driver %s programs nothing", d.Name()))
	}
	data, err := s.readImage(ctx, image)
	if err != nil {
		return fail(err)
	}
	if err := programmer.Program(ctx, path, data); err != nil {
		return fail(err)
	}
	return nil
}

// readImage fetches a bitstream from Glance.
func (s *Server) readImage(ctx context.Context, image string) ([]byte, error) {
	if s.glance == nil {
		return nil, fmt.Errorf("no image service is configured")
	}
	path := "/images/" + url.PathEscape(image) + "/file"
	got, err := s.glance.do(ctx, call{method: http.MethodGet, path: path, header: map[string]string{"Accept": "*/*"}})
	switch {
	case err != nil:
		return nil, err
	case !got.ok():
		return nil, fmt.Errorf("the image service answered %d to GET %s", got.status, path)
	}
	return got.body, nil
}

// resolveImage finds the bitstream that is meant. Of a function, Glance must
// have exactly one image.
func (s *Server) resolveImage(ctx context.Context, want image) (string, error) {
	if want.function == "" {
		return want.bitstream, nil
	}
	if s.glance == nil {
		return "", fmt.Errorf("function %s: no image service is configured", want.function)
	}
	query := url.Values{"accel:function_id": {want.function}}
	got, err := s.glance.do(ctx, call{method: http.MethodGet, path: "/images?" + query.Encode()})
	if err != nil {
		return "", err
	}
	var body struct {
		Images []struct {
			ID string `json:"id"`
		} `json:"images"`
	}
	if !got.ok() {
		return "", fmt.Errorf("the image service answered %d to the search for function %s", got.status, want.function)
	}
	if err := got.decode(&body); err != nil {
		return "", err
	}
	if len(body.Images) != 1 {
		return "", fmt.Errorf("function %s has %d images %v, want exactly one", want.function, len(body.Images), body.Images)
	}
	return body.Images[0].ID, nil
}
