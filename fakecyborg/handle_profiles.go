package fakecyborg

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// nameMinor is the microversion since which a profile can be fetched by name.
const nameMinor = 2

func (s *Server) listProfiles(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleProfileList); err != nil {
		return 0, nil, err
	}
	query, err := queryArgs(r, "name")
	if err != nil {
		return 0, nil, err
	}
	var names []string
	if query.Has("name") {
		names = strings.Split(query.Get("name"), ",")
	}
	list := []profileBody{}
	s.db.View(func(tx store.Tx) {
		for p := range tx.Profiles() {
			if names != nil && !slices.Contains(names, p.Name) {
				continue
			}
			if !store.IsUUID(p.UUID) { // stored by an UpstreamQuirks create: nothing can be listed any more
				err = store.Refuse(store.Invalid, "Expected a uuid but received %s.", p.UUID)
				return
			}
			list = append(list, r.links.profile(p))
		}
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"device_profiles": list}, nil
}

func (s *Server) getProfile(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleProfileRead); err != nil {
		return 0, nil, err
	}
	if _, err := queryArgs(r); err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	find := store.Tx.ProfileByUUID
	if !store.IsUUID(id) {
		if r.minor < nameMinor {
			return 0, nil, tooOld(nameMinor)
		}
		find = store.Tx.ProfileByName
	}
	var p store.Profile
	var err error
	s.db.View(func(tx store.Tx) { p, err = find(tx, id) })
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"device_profile": r.links.oneProfile(p)}, nil
}

func (s *Server) createProfile(r request) (int, any, error) {
	body, err := readBody(r, "req_devprof_list")
	if err != nil {
		return 0, nil, err
	}
	if err := s.authorize(r.caller, ruleProfileCreate); err != nil {
		return 0, nil, err
	}
	in, err := parseProfile(body, s.cfg.UpstreamQuirks)
	if err != nil {
		return 0, nil, err
	}
	p, err := s.storeProfile(r.Context(), in)
	if err != nil {
		return 0, nil, err
	}
	if !store.IsUUID(p.UUID) {
		return 0, nil, store.Refuse(store.Invalid, "Expected a uuid but received %s.", p.UUID)
	}
	return http.StatusCreated, r.links.profile(p), nil
}

func (s *Server) storeProfile(ctx context.Context, in store.Profile) (p store.Profile, err error) {
	now := s.clock.Now()
	s.update(ctx, func(tx store.Tx) { p, err = tx.CreateProfile(in, now) })
	return p, err
}

// deleteProfiles deletes one after the other and stops at the first that it
// cannot delete; those before stay deleted.
func (s *Server) deleteProfiles(r request) (int, any, error) {
	query, err := queryArgs(r, "value")
	if err != nil {
		return 0, nil, err
	}
	value := r.PathValue("id")
	if value == "" {
		value = query.Get("value")
	}
	if value == "" {
		return 0, nil, missing("value")
	}
	if err := s.authorize(r.caller, ruleProfileDelete); err != nil {
		return 0, nil, err
	}
	find, names := store.Tx.ProfileByName, strings.Split(value, ",")
	if store.IsUUID(value) {
		find, names = store.Tx.ProfileByUUID, []string{value}
	}
	s.update(r.Context(), func(tx store.Tx) {
		for _, name := range names {
			var p store.Profile
			if p, err = find(tx, name); err == nil {
				err = tx.DeleteProfile(p)
			}
			if err != nil {
				return
			}
		}
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, nil
}
