package fakecyborg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// stateResolved is the only value of the query argument bind_state.
const stateResolved = "resolved"

// errUnresolved is the answer 423, whose body upstream makes of nothing.
var errUnresolved = errors.New("not all accelerator requests are resolved")

// lengthOfARQ is about what a bound request is long, in bytes.
const lengthOfARQ = 768

// arqsBody writes a body of requests, at most a number, as they are shown at one moment.
func (s *Server) arqsBody(c *simhttp.Call, tx store.Tx, most int, rows iter.Seq[store.ARQ]) []byte {
	write, shown := s.links(c).arqs(tx, s.release.HandleUUID == yes, most), s.conductor.ShownState(tx, s.clock.Now())
	body, separator := append(make([]byte, 0, (most+1)*lengthOfARQ), `{"arqs":[`...), ""
	for row := range rows {
		body = write.append(append(body, separator...), row, shown(row))
		separator = ","
	}
	return append(body, "]}"...)
}

// listARQs lists what the caller may see.
func (s *Server) listARQs(c *simhttp.Call) error {
	args, err := s.arguments(c)
	if err != nil {
		return err
	}
	instance, bindState := args.last("instance"), args.last("bind_state")
	if bindState != "" && bindState != stateResolved {
		return store.Refuse(store.Uncoded, "Bad state: %s for ARQ: None. Expected state(s): ['%s']", bindState, stateResolved)
	}
	var body []byte
	s.db.ViewPast(func(tx store.Tx) {
		scope, most := s.novaScope(c), 0
		if instance == "" {
			scope = s.scope(c)
		}
		if scope.All && instance == "" {
			most = tx.CountARQs()
		}
		body = s.arqsBody(c, tx, most, s.selectARQs(c, tx, scope, instance, bindState == stateResolved, &err))
	})
	if err != nil {
		return err
	}
	return c.Raw(http.StatusOK, body)
}

// selectARQs iterates over the visible requests until there is an error. With resolved, an
// instance's requests are shown only if each is resolved; without an instance, all
// resolved requests are shown.
func (s *Server) selectARQs(c *simhttp.Call, tx store.Tx, scope store.Scope, instance string, resolved bool, err *error) iter.Seq[store.ARQ] {
	shown := s.conductor.ShownState(tx, s.clock.Now())
	return func(yield func(store.ARQ) bool) {
		for a := range tx.ARQs(instance, scope) {
			switch unresolved := resolved && !State(shown(a)).Resolved(); {
			case unresolved && instance != "":
				*err = errUnresolved
			case unresolved:
				continue
			default:
				s.noteForeign(c, a)
				*err = s.showable(a)
			}
			if *err != nil || !yield(a) {
				return
			}
		}
	}
}

func (s *Server) getARQ(c *simhttp.Call) error {
	id := c.PathValue("id")
	if err := s.checkUUID("uuid", id); err != nil {
		return err
	}
	_, err := s.arguments(c)
	if err != nil {
		return err
	}
	var body []byte
	s.db.ViewPast(func(tx store.Tx) {
		var a store.ARQ
		if a, err = tx.ARQ(id, s.scope(c)); err == nil {
			err = s.showable(a)
		}
		if err == nil {
			body = s.links(c).arqs(tx, s.release.HandleUUID == yes, 1).append(nil, a, s.conductor.ShownState(tx, s.clock.Now())(a))
		}
	})
	if err != nil {
		return err
	}
	return c.Raw(http.StatusOK, body)
}

// createARQs makes the requests of a profile; other fields of the body are ignored, as upstream
// does with what its clients send.
func (s *Server) createARQs(c *simhttp.Call) error {
	body, err := s.readBody(c, "req")
	if err != nil {
		return err
	}
	if jsonKind(body) != '{' {
		return noAttribute(body, "get")
	}
	name, err := profileName(body)
	if err != nil {
		return err
	}
	from, err := s.imageOfRequest(c.Context(), name, body)
	if err != nil {
		return err
	}
	var answer []byte
	err = s.storeARQs(c.Context(), name, s.owner(c), from, func(tx store.Tx, created []store.ARQ) {
		answer = s.arqsBody(c, tx, len(created), slices.Values(created))
	})
	if err != nil {
		return err
	}
	return c.Raw(http.StatusCreated, answer)
}

// profileName is the device profile that a body names.
func profileName(body json.RawMessage) (string, error) {
	name, err := subscript(body).at("device_profile_name")
	switch {
	case err != nil, jsonKind(name) == 'n':
		return "", raised("DeviceProfile name needed.")
	case jsonKind(name) == '{':
		return "", raised("dict can not be used as parameter")
	case jsonKind(name) == '[': // the error is from the database
		return "", raised("device_profile_name: %s is not a text", str(name))
	}
	return str(name), nil
}

// checkUUID checks an argument that is a UUID, if the release does.
func (s *Server) checkUUID(argument, value string) error {
	if s.release.ChecksUUIDs == no {
		return nil
	}
	return checkUUID(argument, value)
}

// showable refuses to show a request with an identifier that is not a UUID, if the release does.
func (s *Server) showable(a store.ARQ) error {
	if s.release.ChecksUUIDs == no || a.Provider == "" && a.Instance == "" {
		return nil
	}
	return showable(a.Provider, a.Instance)
}

// owner is the project that a request of the caller belongs to, "" if the release knows none.
func (s *Server) owner(c *simhttp.Call) string {
	if s.release.ARQProject == byPatch {
		return ""
	}
	return c.Identity.Project
}

// storeARQs makes the requests of a profile, and calls created with them.
func (s *Server) storeARQs(ctx context.Context, profile, project string, bitstream store.BitstreamRef, created func(store.Tx, []store.ARQ)) (err error) {
	now := s.clock.Now()
	s.update(ctx, func(tx store.Tx) {
		var rows []store.ARQ
		if rows, err = tx.CreateARQs(profile, project, bitstream, now); err == nil {
			created(tx, rows)
		}
	})
	return err
}

// imageOfRequest returns the image of image_uuid, with its bitstream or function if a group of
// the profile does not name one. An image that names neither is not an error: most images are
// unrelated to FPGAs.
func (s *Server) imageOfRequest(ctx context.Context, profile string, body json.RawMessage) (ref store.BitstreamRef, err error) {
	if !s.cfg.UseImageUUID {
		return ref, nil
	}
	var id *string
	for _, m := range membersOf(body) {
		if m.key == "image_uuid" && json.Unmarshal(m.value, &id) != nil {
			return ref, store.Refuse(store.Invalid, "image_uuid is not a text")
		}
	}
	if id == nil || *id == "" {
		return ref, nil
	}
	if !uuids.Like(*id) {
		return ref, store.Refuse(store.Invalid, "image_uuid: Expected a uuid but received %s.", *id)
	}
	if !store.Read(s.db, func(tx store.Tx) bool { return tx.LeavesBitstream(profile) }) {
		return store.BitstreamRef{GuestImage: *id}, nil
	}
	image, err := s.conductor.DescribeImage(ctx, *id)
	var refused *store.Refusal
	switch {
	case errors.As(err, &refused):
		return ref, err
	case err != nil:
		return ref, store.Refuse(store.Internal, "image_uuid: %v", err)
	}
	return store.BitstreamOf(image)
}

// patchARQs binds and unbinds. The first request's op decides whether a service token is
// required. This is checked after the body.
func (s *Server) patchARQs(c *simhttp.Call) error {
	body, err := s.readBody(c, "patch_list")
	if err != nil {
		return err
	}
	work, err := s.parsePatch(c, body)
	if err != nil {
		return err
	}
	if err := s.requireService(c); err != nil {
		return err
	}
	if !s.cfg.UpstreamQuirks {
		for _, p := range work {
			if err := checkBindArgs(p.Args); err != nil && !p.Unbind {
				return err
			}
		}
	}
	scope := s.novaScope(c)
	s.db.View(func(tx store.Tx) {
		for _, p := range work {
			if a, err := tx.ARQ(p.ARQ, scope); err == nil {
				s.noteForeign(c, a)
			}
			if p.Args.Instance == "" {
				continue
			}
			for a := range tx.ARQs(p.Args.Instance, scope) { // which refuse the bind
				s.noteForeign(c, a)
			}
		}
	})
	if err := s.conductor.Apply(c.Context(), agent.Caller{Project: s.owner(c), Scope: scope}, work); err != nil {
		return err
	}
	if !s.cfg.AnswerPatch {
		return c.Empty(http.StatusAccepted)
	}
	var answer []byte
	s.db.View(func(tx store.Tx) {
		var arqs []store.ARQ
		for _, p := range work {
			if a, err := tx.ARQ(p.ARQ, scope); err == nil {
				arqs = append(arqs, a)
			}
		}
		answer = s.arqsBody(c, tx, len(arqs), slices.Values(arqs))
	})
	return c.Raw(http.StatusAccepted, answer)
}

// deleteARQs deletes by UUIDs or by instance.
func (s *Server) deleteARQs(c *simhttp.Call) error {
	args, err := s.arguments(c, "arqs", "instance")
	if err != nil {
		return err
	}
	arqs, instance := args.last("arqs"), args.last("instance")
	if !args.has("arqs") {
		arqs = c.PathValue("id")
	}
	switch {
	case (arqs == "") == (instance == ""):
		return store.Refuse(store.Uncoded, "Object action delete failed because: Provide either an ARQ uuid list or an instance UUID")
	case arqs != "":
		err = s.deleteByUUID(c, strings.Split(arqs, ","))
	default:
		err = s.deleteByInstance(c, instance)
	}
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}

// deleteByUUID checks all of them before it deletes one.
func (s *Server) deleteByUUID(c *simhttp.Call, uuids []string) error {
	if err := s.checkDeletable(c, uuids); err != nil {
		return err
	}
	overlap := s.conductor.Overlap(uuids[0])
	if err := overlap.Before(c.Context()); err != nil {
		return err
	}
	if !s.cfg.UpstreamQuirks {
		slices.Sort(uuids)
		uuids = slices.Compact(uuids)
	}
	absent, err := s.removeAll(c, uuids)
	if err == nil && len(absent) > 0 {
		err = store.Refuse(store.NotFound, "ARQ not found with uuids [%s]", schema.ReprList(absent))
	}
	if err != nil {
		return err
	}
	return overlap.After(c.Context())
}

// checkDeletable refuses a bound request and, if the release does, an unknown one.
func (s *Server) checkDeletable(c *simhttp.Call, uuids []string) (err error) {
	s.db.View(func(tx store.Tx) {
		for _, uuid := range uuids {
			a, unknown := tx.ARQ(uuid, s.novaScope(c))
			switch {
			case unknown != nil && s.release.UnknownARQ == noneDeleted:
				err = unknown
			case a.Instance != "" && s.requireService(c) != nil:
				err = store.Refuse(store.Forbidden, "ARQ %s is bound to instance %s. Use the Compute API to manage instance accelerators.", uuid, a.Instance)
			}
			if err != nil {
				return
			}
			s.noteForeign(c, a)
		}
	})
	return err
}

// deleteByInstance deletes what the caller sees, if there is anything. Upstream answers 404 about a request that another caller
// deletes at the same time.
func (s *Server) deleteByInstance(c *simhttp.Call, instance string) error {
	if err := s.requireService(c); err != nil {
		return err
	}
	var uuids []string
	s.db.View(func(tx store.Tx) {
		for a := range tx.ARQs(instance, s.novaScope(c)) {
			s.noteForeign(c, a)
			uuids = append(uuids, a.UUID)
		}
	})
	overlap := s.conductor.Overlap(instance)
	if err := overlap.Before(c.Context()); err != nil {
		return err
	}
	absent, err := s.removeAll(c, uuids)
	if err == nil && len(absent) > 0 && (overlap.Open() || s.cfg.UpstreamQuirks) {
		err = store.Refuse(store.NotFound, "ExtArq not found with uuid=%s", absent[0])
	}
	if err != nil {
		return err
	}
	return overlap.After(c.Context())
}

// removeAll deletes the requests, and returns those that another caller has deleted in the
// meantime. Unlike upstream, it continues after a request that cannot be deleted.
func (s *Server) removeAll(c *simhttp.Call, uuids []string) (absent []string, first error) {
	for _, uuid := range uuids {
		err := s.conductor.Delete(c.Context(), uuid, s.novaScope(c))
		var refused *store.Refusal
		if errors.As(err, &refused) && refused.Kind == store.NotFound {
			absent = append(absent, uuid)
			continue
		}
		if first = cmp.Or(first, err); first != nil && s.cfg.UpstreamQuirks {
			break
		}
	}
	return absent, first
}
