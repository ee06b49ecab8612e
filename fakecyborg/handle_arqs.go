package fakecyborg

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// stateResolved is the only value of the query argument bind_state.
const stateResolved = "resolved"

// errUnresolved is the answer 423, whose body upstream makes of nothing.
var errUnresolved = errors.New("not all accelerator requests are resolved")

func (s *Server) arqBodies(r request, arqs []ARQ) []arqBody {
	list := make([]arqBody, 0, len(arqs))
	for _, a := range arqs {
		list = append(list, r.links.arq(a, s.cfg.zed()))
	}
	return list
}

// readableARQ refuses, under quirks, what cannot be shown: a bind may store an
// instance or provider that is no uuid.
func readableARQ(a ARQ) error {
	for _, id := range []string{a.DeviceRPUUID, a.InstanceUUID} {
		if id != "" && !simhttp.IsUUIDLike(id) {
			return refuse(kindInvalid, "Expected a uuid but received %s.", id)
		}
	}
	return nil
}

// listARQs lists what the caller may see.
func (s *Server) listARQs(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleARQList); err != nil {
		return 0, nil, err
	}
	query, err := queryArgs(r, "bind_state", "instance")
	if err != nil {
		return 0, nil, err
	}
	instance, bindState := query.Get("instance"), query.Get("bind_state")
	if query.Has("instance") {
		if err := checkUUID("instance", instance); err != nil {
			return 0, nil, err
		}
	}
	if query.Has("bind_state") && bindState != stateResolved {
		return 0, nil, refuse(kindUncoded, "Bad state: %s for ARQ: None. Expected state(s): %s", bindState, pythonList(stateResolved))
	}
	arqs, err := s.selectARQs(r, instance, bindState == stateResolved)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"arqs": s.arqBodies(r, arqs)}, nil
}

// selectARQs copies the visible requests. Of an instance either all are
// resolved or none is shown; without an instance those that are resolved are.
func (s *Server) selectARQs(r request, instance string, resolved bool) ([]ARQ, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows := s.state.arqsOf(instance, s.scope(r.caller))
	list := make([]ARQ, 0, len(rows))
	view := s.view()
	for _, a := range rows {
		v := view(a)
		if resolved && !v.State.Resolved() {
			if instance != "" {
				return nil, errUnresolved
			}
			continue
		}
		if err := readableARQ(v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (s *Server) getARQ(r request) (int, any, error) {
	id := r.PathValue("id")
	if err := checkUUID("uuid", id); err != nil {
		return 0, nil, err
	}
	if _, err := queryArgs(r); err != nil {
		return 0, nil, err
	}
	if err := s.authorize(r.caller, ruleARQRead); err != nil {
		return 0, nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	a, err := s.state.findARQ(id, s.scope(r.caller))
	if err != nil {
		return 0, nil, err
	}
	v := s.view()(a)
	if err := readableARQ(v); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, r.links.arq(v, s.cfg.zed()), nil
}

// createARQs makes the requests of a profile; other fields of the body are
// ignored, as upstream does with what its clients send.
func (s *Server) createARQs(r request) (int, any, error) {
	body, err := readBody(r, "req")
	if err != nil {
		return 0, nil, err
	}
	if err := s.authorize(r.caller, ruleARQCreate); err != nil {
		return 0, nil, err
	}
	name, err := profileNameOf(body)
	if err != nil {
		return 0, nil, err
	}
	from, err := s.imageOfRequest(r.Context(), body)
	if err != nil {
		return 0, nil, err
	}
	now := s.clock.Now()
	project := r.caller.Project
	if s.cfg.zed() {
		project = "" // older releases learn it with the bind, or never
	}
	s.lock(r.Context())
	arqs, err := s.state.createARQs(name, project, from, now)
	s.unlock()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, map[string]any{"arqs": s.arqBodies(r, arqs)}, nil
}

func profileNameOf(body []byte) (string, error) {
	if !json.Valid(body) {
		return "", errJSON
	}
	if jsonKind(body) != '{' {
		return "", refuse(kindUncoded, "'list' object has no attribute 'get'")
	}
	fields, err := decodeObject(body)
	if err != nil {
		return "", err
	}
	for _, f := range fields {
		if f.key == "device_profile_name" && jsonKind(f.value) != 'n' {
			text, err := scalarText(f.value)
			if err != nil {
				return "", refuse(kindInvalid, "device_profile_name: %v", err)
			}
			return text, nil
		}
	}
	return "", refuse(kindUncoded, "DeviceProfile name needed.")
}

// imageOfRequest is the bitstream or function that the image of image_uuid
// names. An image that names neither is no error: most images have nothing to do
// with FPGAs.
func (s *Server) imageOfRequest(ctx context.Context, body []byte) (image, error) {
	if !s.cfg.UseImageUUID {
		return image{}, nil
	}
	var fields struct {
		Image *string `json:"image_uuid"`
	}
	if err := json.Unmarshal(body, &fields); err != nil {
		return image{}, refuse(kindInvalid, "image_uuid is not a text")
	}
	if fields.Image == nil || *fields.Image == "" {
		return image{}, nil
	}
	if !simhttp.IsUUIDLike(*fields.Image) {
		return image{}, refuse(kindInvalid, "image_uuid: Expected a uuid but received %s.", *fields.Image)
	}
	found, err := s.describeImage(ctx, *fields.Image)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return image{}, err
	case err != nil:
		return image{}, refuse(kindServer, "image_uuid: %v", err)
	}
	return pickImage("of image "+found.id, false, found.get)
}

// patchARQs binds and unbinds. The first request's op decides whether the
// service token is asked for, which comes after the checks of the body.
func (s *Server) patchARQs(r request) (int, any, error) {
	body, err := readBody(r, "patch_list")
	if err != nil {
		return 0, nil, err
	}
	if err := s.authorize(r.caller, ruleARQUpdate); err != nil {
		return 0, nil, err
	}
	patches, err := parsePatch(body, r.minor, s.cfg)
	if err != nil {
		return 0, nil, err
	}
	for _, p := range patches {
		if p.project && !r.caller.admin() && !s.cfg.zed() {
			return 0, nil, denied(ruleARQUpdate)
		}
	}
	if err := s.requireService(r.caller); err != nil {
		return 0, nil, err
	}
	if err := s.applyPatch(s.living(r.Context()), r.caller, patches); err != nil {
		return 0, nil, err
	}
	return http.StatusAccepted, s.patchAnswer(r, patches), nil
}

// patchAnswer is nothing, or what the specifications promise: the requests.
func (s *Server) patchAnswer(r request, patches []arqPatch) any {
	if !s.cfg.AnswerPatch {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]ARQ, 0, len(patches))
	view := s.view()
	for _, p := range patches {
		if a, err := s.state.findARQ(p.arq, s.scope(r.caller)); err == nil {
			list = append(list, view(a))
		}
	}
	return map[string]any{"arqs": s.arqBodies(r, list)}
}

// deleteARQs deletes by uuids or by instance.
func (s *Server) deleteARQs(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleARQDelete); err != nil {
		return 0, nil, err
	}
	query, err := queryArgs(r, "arqs", "instance")
	if err != nil {
		return 0, nil, err
	}
	arqs, instance := query.Get("arqs"), query.Get("instance")
	if id := r.PathValue("id"); id != "" {
		arqs = id
	}
	switch {
	case (arqs == "") == (instance == ""):
		return 0, nil, refuse(kindUncoded, "Object action delete failed because: Provide either an ARQ uuid list or an instance UUID")
	case arqs != "":
		return http.StatusNoContent, nil, s.deleteByUUID(r, strings.Split(arqs, ","))
	}
	if err := checkUUID("instance", instance); err != nil {
		return 0, nil, err
	}
	if err := s.requireService(r.caller); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, s.deleteByInstance(r, instance)
}

// deleteByUUID looks all of them up before it deletes one.
func (s *Server) deleteByUUID(r request, uuids []string) error {
	err := s.checkDeletable(r, uuids)
	if err != nil && s.cfg.zed() {
		return s.deleteKnown(r, uuids)
	}
	if err != nil {
		return err
	}
	if !s.cfg.UpstreamQuirks {
		slices.Sort(uuids)
		uuids = slices.Compact(uuids)
	}
	return s.removeAll(r, uuids, "ARQ not found with uuids ['%s']")
}

// deleteKnown is what releases before the service token check did with a list of
// which one is unknown: the others are deleted, and then it is 404.
func (s *Server) deleteKnown(r request, uuids []string) error {
	var first error
	for _, uuid := range uuids {
		if err := s.remove(s.living(r.Context()), uuid, s.scope(r.caller)); first == nil {
			first = err
		}
	}
	return first
}

func (s *Server) checkDeletable(r request, uuids []string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, uuid := range uuids {
		a, err := s.state.findARQ(uuid, s.scope(r.caller))
		if err != nil {
			return err
		}
		if a.instance != "" && s.requireService(r.caller) != nil {
			return refuse(kindForbidden, "ARQ %s is bound to instance %s. Use the Compute API to manage instance accelerators.", uuid, a.instance)
		}
	}
	return nil
}

// deleteByInstance deletes what the caller sees; nothing is fine, too.
func (s *Server) deleteByInstance(r request, instance string) error {
	s.mu.RLock()
	var uuids []string
	for _, a := range s.state.arqsOf(instance, s.scope(r.caller)) {
		uuids = append(uuids, a.uuid)
	}
	s.mu.RUnlock()
	return s.removeAll(r, uuids, "")
}

// removeAll deletes the requests. One that cannot be deleted does not keep the
// others from it, unlike upstream. One that another caller deleted meanwhile is
// an error only if there is a text for it.
func (s *Server) removeAll(r request, uuids []string, absent string) error {
	var first error
	for _, uuid := range uuids {
		err := s.remove(s.living(r.Context()), uuid, s.scope(r.caller))
		var refused *refusal
		if errors.As(err, &refused) && refused.kind == kindNotFound {
			err = nil
			if absent != "" {
				err = refuse(kindNotFound, absent, uuid)
			}
		}
		if first == nil {
			first = err
		}
		if first != nil && s.cfg.UpstreamQuirks {
			break
		}
	}
	return first
}
