package fakecyborg

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// nameMinor is the microversion since which a profile can be fetched by name.
const nameMinor = 2

func (s *Server) listProfiles(c *simhttp.Call) error {
	query, err := s.authorizeQuery(c, ruleProfileList)
	if err != nil {
		return err
	}
	names := strings.Split(query.Get("name"), ",")
	links, list := s.links(c), []profileBody{}
	s.db.View(func(tx store.Tx) {
		for p := range tx.Profiles() {
			if query.Has("name") && !slices.Contains(names, p.Name) {
				continue
			}
			if err = showable(p.UUID); err != nil {
				return
			}
			list = append(list, links.profile(p))
		}
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"device_profiles": list})
}

// showable refuses to show a row with an identifier that is no UUID, which only UpstreamQuirks
// lets a client store. As upstream, lists that have such a row cannot be shown any more.
func showable(ids ...string) error {
	for _, id := range ids {
		if id != "" && !uuids.Like(id) {
			return store.Refuse(store.Invalid, "Expected a uuid but received %s.", id)
		}
	}
	return nil
}

func (s *Server) getProfile(c *simhttp.Call) error {
	if _, err := s.authorizeQuery(c, ruleProfileRead); err != nil {
		return err
	}
	id, find := c.PathValue("id"), store.Tx.ProfileByUUID
	if !uuids.Like(id) {
		if c.Minor < nameMinor {
			return tooOld(nameMinor)
		}
		find = store.Tx.ProfileByName
	}
	p, err := store.Find(s.db, func(tx store.Tx) (store.Profile, error) { return find(tx, id) })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"device_profile": s.links(c).oneProfile(p)})
}

func (s *Server) createProfile(c *simhttp.Call) error {
	body, err := s.authorizeBody(c, ruleProfileCreate, "req_devprof_list")
	if err != nil {
		return err
	}
	in, err := s.parseProfile(body)
	if err != nil {
		return err
	}
	p, err := s.storeProfile(c.Context(), in)
	if err != nil {
		return err
	}
	if err := showable(p.UUID); err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, s.links(c).profile(p))
}

func (s *Server) storeProfile(ctx context.Context, in store.Profile) (p store.Profile, err error) {
	now := s.clock.Now()
	s.update(ctx, func(tx store.Tx) { p, err = tx.CreateProfile(in, now) })
	return p, err
}

// deleteProfiles deletes one after the other and stops at the first that it cannot delete;
// those before stay deleted.
func (s *Server) deleteProfiles(c *simhttp.Call) error {
	value, err := s.deletedID(c, ruleProfileDelete, "value")
	if err != nil {
		return err
	}
	find, names := store.Tx.ProfileByName, strings.Split(value, ",")
	if uuids.Like(value) {
		find, names = store.Tx.ProfileByUUID, []string{value}
	}
	s.update(c.Context(), func(tx store.Tx) {
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
		return err
	}
	return c.Empty(http.StatusNoContent)
}

// deletedID is how a DELETE begins whose resource stands in the path or in an argument.
func (s *Server) deletedID(c *simhttp.Call, rule policyRule, argument string) (string, error) {
	query, err := queryArgs(c, argument)
	if err != nil {
		return "", err
	}
	id := cmp.Or(c.PathValue("id"), query.Get(argument))
	if id == "" {
		return "", missing(argument)
	}
	return id, s.authorize(c, rule)
}
