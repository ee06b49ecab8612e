package fakecyborg

import (
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
	args, err := s.arguments(c)
	if err != nil {
		return err
	}
	names := strings.Split(args.last("name"), ",")
	links, list := s.links(c), []profileBody{}
	s.db.View(func(tx store.Tx) {
		for p := range tx.Profiles() {
			if args.has("name") && !slices.Contains(names, p.Name) {
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

// showable returns an error for a row with an identifier that is not a UUID, which a client can
// store only with UpstreamQuirks. As upstream, every list with such a row fails.
func showable(ids ...string) error {
	for _, id := range ids {
		if !uuids.Like(id) {
			return store.Refuse(store.Invalid, "Expected a uuid but received %s.", id)
		}
	}
	return nil
}

func (s *Server) getProfile(c *simhttp.Call) error {
	if _, err := s.arguments(c); err != nil {
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
	body, err := s.readBody(c, "req_devprof_list")
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
	value, err := s.deletedID(c, "value")
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

// deletedID is what a DELETE names in an argument, or else in the path.
func (s *Server) deletedID(c *simhttp.Call, argument string) (string, error) {
	args, err := s.arguments(c, argument)
	if err != nil {
		return "", err
	}
	if args.has(argument) {
		return args.last(argument), nil
	}
	if id := c.PathValue("id"); id != "" {
		return id, nil
	}
	return "", missing(argument)
}
