package fakecyborg

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
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
		if id != "" && !store.IsUUID(id) {
			return store.Refuse(store.Invalid, "Expected a uuid but received %s.", id)
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
		return 0, nil, store.Refuse(store.Uncoded, "Bad state: %s for ARQ: None. Expected state(s): %s", bindState, store.PythonList(stateResolved))
	}
	arqs, err := s.selectARQs(r, instance, bindState == stateResolved)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"arqs": s.arqBodies(r, arqs)}, nil
}

// selectARQs lists the visible requests. Of an instance either all are
// resolved or none is shown; without an instance those that are resolved are.
func (s *Server) selectARQs(r request, instance string, resolved bool) (list []ARQ, err error) {
	list = []ARQ{}
	s.db.View(func(tx store.Tx) {
		view := s.arqView(tx)
		for row := range tx.ARQs(instance, s.scope(r.caller)) {
			a := view(row)
			if resolved && !a.State.Resolved() {
				if instance != "" {
					err = errUnresolved
					return
				}
				continue
			}
			if err = readableARQ(a); err != nil {
				return
			}
			list = append(list, a)
		}
	})
	return list, err
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
	var a ARQ
	var err error
	s.db.View(func(tx store.Tx) {
		var row store.ARQ
		if row, err = tx.ARQ(id, s.scope(r.caller)); err == nil {
			a = s.arqView(tx)(row)
		}
	})
	if err == nil {
		err = readableARQ(a)
	}
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, r.links.arq(a, s.cfg.zed()), nil
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
	project := r.caller.Project
	if s.cfg.zed() {
		project = "" // older releases learn it with the bind, or never
	}
	arqs, err := s.storeARQs(r.Context(), name, project, from)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, map[string]any{"arqs": s.arqBodies(r, arqs)}, nil
}

// storeARQs makes the requests of a profile.
func (s *Server) storeARQs(ctx context.Context, profile, project string, bitstream store.BitstreamRef) (arqs []ARQ, err error) {
	now := s.clock.Now()
	s.update(ctx, func(tx store.Tx) {
		var rows []store.ARQ
		rows, err = tx.CreateARQs(profile, project, bitstream, now)
		for _, row := range rows {
			arqs = append(arqs, arqOf(tx, row, row.State))
		}
	})
	return arqs, err
}

func profileNameOf(body []byte) (string, error) {
	if !json.Valid(body) {
		return "", errJSON
	}
	if jsonKind(body) != '{' {
		return "", store.Refuse(store.Uncoded, "'list' object has no attribute 'get'")
	}
	fields, err := decodeObject(body)
	if err != nil {
		return "", err
	}
	for _, f := range fields {
		if f.key == "device_profile_name" && jsonKind(f.value) != 'n' {
			text, err := scalarText(f.value)
			if err != nil {
				return "", store.Refuse(store.Invalid, "device_profile_name: %v", err)
			}
			return text, nil
		}
	}
	return "", store.Refuse(store.Uncoded, "DeviceProfile name needed.")
}

// imageOfRequest is the bitstream or function that the image of image_uuid
// names. An image that names neither is no error: most images have nothing to do
// with FPGAs.
func (s *Server) imageOfRequest(ctx context.Context, body []byte) (store.BitstreamRef, error) {
	if !s.cfg.UseImageUUID {
		return store.BitstreamRef{}, nil
	}
	var fields struct {
		Image *string `json:"image_uuid"`
	}
	if err := json.Unmarshal(body, &fields); err != nil {
		return store.BitstreamRef{}, store.Refuse(store.Invalid, "image_uuid is not a text")
	}
	if fields.Image == nil || *fields.Image == "" {
		return store.BitstreamRef{}, nil
	}
	if !store.IsUUID(*fields.Image) {
		return store.BitstreamRef{}, store.Refuse(store.Invalid, "image_uuid: Expected a uuid but received %s.", *fields.Image)
	}
	found, err := s.conductor.DescribeImage(ctx, *fields.Image)
	var refused *store.Refusal
	switch {
	case errors.As(err, &refused):
		return store.BitstreamRef{}, err
	case err != nil:
		return store.BitstreamRef{}, store.Refuse(store.Internal, "image_uuid: %v", err)
	}
	return store.BitstreamOf(found)
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
	work := make([]agent.Patch, len(patches))
	for i, p := range patches {
		if p.setsProject && !r.caller.admin() && !s.cfg.zed() {
			return 0, nil, store.Denied(ruleARQUpdate)
		}
		work[i] = p.Patch
	}
	if err := s.requireService(r.caller); err != nil {
		return 0, nil, err
	}
	by := agent.Caller{Project: r.caller.Project, Scope: s.scope(r.caller)}
	if err := s.conductor.Apply(r.Context(), by, work); err != nil {
		return 0, nil, err
	}
	return http.StatusAccepted, s.patchAnswer(r, work), nil
}

// patchAnswer is nothing, or what the specifications promise: the requests.
func (s *Server) patchAnswer(r request, patches []agent.Patch) any {
	if !s.cfg.AnswerPatch {
		return nil
	}
	list := make([]ARQ, 0, len(patches))
	s.db.View(func(tx store.Tx) {
		view := s.arqView(tx)
		for _, p := range patches {
			if a, err := tx.ARQ(p.ARQ, s.scope(r.caller)); err == nil {
				list = append(list, view(a))
			}
		}
	})
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
		return 0, nil, store.Refuse(store.Uncoded, "Object action delete failed because: Provide either an ARQ uuid list or an instance UUID")
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
		if err := s.conductor.Delete(r.Context(), uuid, s.scope(r.caller)); first == nil {
			first = err
		}
	}
	return first
}

func (s *Server) checkDeletable(r request, uuids []string) (err error) {
	s.db.View(func(tx store.Tx) {
		for _, uuid := range uuids {
			var a store.ARQ
			if a, err = tx.ARQ(uuid, s.scope(r.caller)); err != nil {
				return
			}
			if a.Instance != "" && s.requireService(r.caller) != nil {
				err = store.Refuse(store.Forbidden, "ARQ %s is bound to instance %s. Use the Compute API to manage instance accelerators.", uuid, a.Instance)
				return
			}
		}
	})
	return err
}

// deleteByInstance deletes what the caller sees; nothing is fine, too.
func (s *Server) deleteByInstance(r request, instance string) error {
	var uuids []string
	s.db.View(func(tx store.Tx) {
		for a := range tx.ARQs(instance, s.scope(r.caller)) {
			uuids = append(uuids, a.UUID)
		}
	})
	return s.removeAll(r, uuids, "")
}

// removeAll deletes the requests. One that cannot be deleted does not keep the
// others from it, unlike upstream. One that another caller deleted meanwhile is
// an error only if there is a text for it.
func (s *Server) removeAll(r request, uuids []string, absent string) error {
	var first error
	for _, uuid := range uuids {
		err := s.conductor.Delete(r.Context(), uuid, s.scope(r.caller))
		var refused *store.Refusal
		if errors.As(err, &refused) && refused.Kind == store.NotFound {
			err = nil
			if absent != "" {
				err = store.Refuse(store.NotFound, absent, uuid)
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
