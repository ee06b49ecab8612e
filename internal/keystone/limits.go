package keystone

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	registeredPath = "/v3/registered_limits"
	limitsPath     = "/v3/limits"
)

// registeredLimit is the default limit of a resource of a service.
type registeredLimit struct {
	ID           string  `json:"id"`
	ServiceID    string  `json:"service_id"`
	RegionID     *string `json:"region_id"`
	ResourceName string  `json:"resource_name"`
	DefaultLimit int     `json:"default_limit"`
	Description  *string `json:"description"`
}

// projectLimit overrides a registered limit for one project, or for a domain.
type projectLimit struct {
	ID            string  `json:"id"`
	ProjectID     *string `json:"project_id"`
	DomainID      *string `json:"domain_id"`
	ServiceID     string  `json:"service_id"`
	RegionID      *string `json:"region_id"`
	ResourceName  string  `json:"resource_name"`
	ResourceLimit int     `json:"resource_limit"`
	Description   *string `json:"description"`
}

// resource is what a limit is of.
type resource struct{ service, region, name string }

func (l registeredLimit) resource() resource {
	return resource{l.ServiceID, text(l.RegionID), l.ResourceName}
}

func (l projectLimit) resource() resource {
	return resource{l.ServiceID, text(l.RegionID), l.ResourceName}
}

func (l projectLimit) sameAs(other projectLimit) bool {
	return l.resource() == other.resource() && text(l.ProjectID) == text(other.ProjectID) && text(l.DomainID) == text(other.DomainID)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// limitStore holds the unified limits, oldest first.
type limitStore struct {
	seed uint64

	mu         sync.RWMutex
	made       uint64
	registered []registeredLimit
	limits     []projectLimit
}

func (s *limitStore) newID(kind string) string {
	s.made++
	return stableID(s.seed, kind, fmt.Sprint(s.made))
}

func conflict(kind string) *requestError {
	return &requestError{http.StatusConflict, "Conflict occurred attempting to store " + kind + " - Duplicate entry."}
}

// register stores all of the list or, with the error, none.
func (s *limitStore) register(list []registeredLimit) ([]registeredLimit, *requestError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.registered)
	for i, l := range list {
		if slices.ContainsFunc(all, func(other registeredLimit) bool { return other.resource() == l.resource() }) {
			return nil, conflict("registered_limit")
		}
		list[i].ID = s.newID("registered_limit")
		all = append(all, list[i])
	}
	s.registered = all
	return list, nil
}

// limit stores all of the list or, with the error, none.
func (s *limitStore) limit(list []projectLimit) ([]projectLimit, *requestError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.limits)
	for i, l := range list {
		if !slices.ContainsFunc(s.registered, func(r registeredLimit) bool { return r.resource() == l.resource() }) {
			return nil, &requestError{http.StatusForbidden, "Unable to create a limit that has no corresponding registered limit."}
		}
		if slices.ContainsFunc(all, l.sameAs) {
			return nil, conflict("limit")
		}
		list[i].ID = s.newID("limit")
		all = append(all, list[i])
	}
	s.limits = all
	return list, nil
}

// referenced refuses to touch a registered limit that projects' limits override.
func (s *limitStore) referenced(l registeredLimit) *requestError {
	if slices.ContainsFunc(s.limits, func(p projectLimit) bool { return p.resource() == l.resource() }) {
		return &requestError{http.StatusForbidden, "Unable to update or delete registered limit " + l.ID +
			" because there are project limits associated with it."}
	}
	return nil
}

func (s *limitStore) registeredAt(id string) (int, *requestError) {
	i := slices.IndexFunc(s.registered, func(l registeredLimit) bool { return l.ID == id })
	if i < 0 {
		return 0, &requestError{http.StatusNotFound, "Could not find registered limit for " + id + "."}
	}
	return i, nil
}

func (s *limitStore) limitAt(id string) (int, *requestError) {
	i := slices.IndexFunc(s.limits, func(l projectLimit) bool { return l.ID == id })
	if i < 0 {
		return 0, &requestError{http.StatusNotFound, "Could not find limit for " + id + "."}
	}
	return i, nil
}

// updateRegistered applies a change to a copy and stores it.
func (s *limitStore) updateRegistered(id string, change func(*registeredLimit)) (registeredLimit, *requestError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.registeredAt(id)
	if err != nil {
		return registeredLimit{}, err
	}
	l := s.registered[at]
	if err := s.referenced(l); err != nil {
		return registeredLimit{}, err
	}
	change(&l)
	if slices.ContainsFunc(s.registered, func(other registeredLimit) bool { return other.ID != id && other.resource() == l.resource() }) {
		return registeredLimit{}, conflict("registered_limit")
	}
	s.registered = slices.Clone(s.registered)
	s.registered[at] = l
	return l, nil
}

func (s *limitStore) updateLimit(id string, change func(*projectLimit)) (projectLimit, *requestError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.limitAt(id)
	if err != nil {
		return projectLimit{}, err
	}
	s.limits = slices.Clone(s.limits)
	change(&s.limits[at])
	return s.limits[at], nil
}

func (s *limitStore) unregister(id string) *requestError {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.registeredAt(id)
	if err != nil {
		return err
	}
	if err := s.referenced(s.registered[at]); err != nil {
		return err
	}
	s.registered = slices.Delete(slices.Clone(s.registered), at, at+1)
	return nil
}

func (s *limitStore) unlimit(id string) *requestError {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.limitAt(id)
	if err != nil {
		return err
	}
	s.limits = slices.Delete(slices.Clone(s.limits), at, at+1)
	return nil
}

func (s *limitStore) lists() ([]registeredLimit, []projectLimit) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.registered, s.limits // replaced, never changed
}

// getLimitModel is GET /v3/limits/model. The flat model looks at each project by
// itself, whatever its parents have.
func (s *Server) getLimitModel(w http.ResponseWriter, _ *http.Request, _ *token) {
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"model": map[string]string{
		"name":        "flat",
		"description": "Limit enforcement and validation does not take project hierarchy into consideration.",
	}})
}
