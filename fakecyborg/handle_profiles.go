package fakecyborg

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
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
	s.mu.RLock()
	rows := slices.Clone(s.state.profiles.rows)
	s.mu.RUnlock()
	list := []profileBody{}
	for _, p := range rows {
		if names != nil && !slices.Contains(names, p.name) {
			continue
		}
		if !simhttp.IsUUIDLike(p.uuid) { // stored by an UpstreamQuirks create: nothing can be listed any more
			return 0, nil, refuse(kindInvalid, "Expected a uuid but received %s.", p.uuid)
		}
		list = append(list, r.links.profile(p))
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
	s.mu.RLock()
	defer s.mu.RUnlock()
	find := s.state.profileByUUID
	if !simhttp.IsUUIDLike(id) {
		if r.minor < nameMinor {
			return 0, nil, tooOld(nameMinor)
		}
		find = s.state.profileByName
	}
	p, err := find(id)
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
	if !simhttp.IsUUIDLike(p.uuid) {
		return 0, nil, refuse(kindInvalid, "Expected a uuid but received %s.", p.uuid)
	}
	return http.StatusCreated, r.links.profile(p), nil
}

func (s *Server) storeProfile(ctx context.Context, in profileInput) (*profileRow, error) {
	now := s.clock.Now()
	s.lock(ctx)
	defer s.unlock()
	return s.state.createProfile(in, now)
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
	s.lock(r.Context())
	defer s.unlock()
	if simhttp.IsUUIDLike(value) {
		p, err := s.state.profileByUUID(value)
		if err == nil {
			err = s.state.deleteProfile(p)
		}
		return http.StatusNoContent, nil, err
	}
	for name := range strings.SplitSeq(value, ",") {
		p, err := s.state.profileByName(name)
		if err == nil {
			err = s.state.deleteProfile(p)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return http.StatusNoContent, nil, nil
}
