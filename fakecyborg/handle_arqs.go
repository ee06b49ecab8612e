package fakecyborg

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
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
		if id != "" && !isUUID(id) {
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
	for _, a := range rows {
		if resolved && !a.state.Resolved() {
			if instance != "" {
				return nil, errUnresolved
			}
			continue
		}
		v := a.value()
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
	v := a.value()
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
	now := s.clock.Now()
	project := r.caller.Project
	if s.cfg.zed() {
		project = "" // older releases learn it with the bind, or never
	}
	s.mu.Lock()
	arqs, err := s.state.createARQs(name, project, now)
	s.mu.Unlock()
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
	return http.StatusAccepted, nil, s.applyPatch(s.life, r.caller, patches)
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
	if err := s.checkDeletable(r, uuids); err != nil {
		return err
	}
	if !s.cfg.UpstreamQuirks {
		slices.Sort(uuids)
		uuids = slices.Compact(uuids)
	}
	return s.removeAll(r, uuids, "ARQ not found with uuids ['%s']")
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
		err := s.remove(s.life, uuid, s.scope(r.caller))
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
