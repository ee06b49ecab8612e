package spawn

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// askCandidates sends the query. A Placement that does not know the
// microversion of Nova's query is asked again as Stein and Train asked.
func (a *Attempt) askCandidates(ctx context.Context) (*allocationcandidates.AllocationCandidates, error) {
	p := a.flow.placement
	if err := a.narrowToHost(ctx); err != nil && statusOf(err) != http.StatusNotAcceptable {
		return nil, err
	}
	answer, err := p.candidates(ctx, a.Spec)
	if p.old() || statusOf(err) != http.StatusNotAcceptable {
		return answer, err
	}
	p.legacy.Store(true)
	if err := a.buildSpec(); err != nil {
		return nil, err
	}
	if err := a.narrowToHost(ctx); err != nil {
		return nil, err
	}
	return p.candidates(ctx, a.Spec)
}

// dropFlat leaves out the candidates whose devices are the compute node's own,
// unless Compat.FlatProviders takes them. When there are no others, the error
// says so and matches ErrNoCandidates.
func (a *Attempt) dropFlat() error {
	if a.flow.config.Compat.FlatProviders {
		return nil
	}
	groups := a.deviceGroups()
	var flat error
	a.Candidates = slices.DeleteFunc(a.Candidates, func(c Candidate) bool {
		err := checkNested(groups, c)
		flat = cmp.Or(flat, err)
		return err != nil
	})
	if len(a.Candidates) > 0 {
		return nil
	}
	return flat
}

func checkNested(groups []requestspec.Group, c Candidate) error {
	for _, group := range groups {
		if slices.Contains(c.Mappings[group.RequesterID], c.Root) {
			return fmt.Errorf("%w: group %s is served by the compute node %s itself and by no device below it (Compat.FlatProviders takes it)",
				ErrNoCandidates, group.RequesterID, c.Root)
		}
	}
	return nil
}

// mapGroups settles which provider serves each group of the device profiles,
// before any ARQ is made: Placement's mappings, or a search where it has none.
func (a *Attempt) mapGroups(ctx context.Context, candidate Candidate) error {
	groups := a.deviceGroups()
	if len(groups) > 0 && (a.flow.config.Compat.SearchProviders || a.Spec.Numeric) {
		found, err := a.search(ctx, groups, candidate)
		if err != nil {
			return fmt.Errorf("instance %s on host %s: %w", a.Request.Instance, a.Host, err)
		}
		candidate.Mappings = found
	}
	a.Chosen = &candidate
	if _, err := matching.Providers(groups, candidate.Mappings); err != nil {
		return fmt.Errorf("instance %s on host %s: %w", a.Request.Instance, a.Host, err)
	}
	if a.flow.config.Compat.FlatProviders {
		return nil
	}
	return checkNested(groups, candidate) // a search knows only now
}

// search is Nova's way before there were mappings.
func (a *Attempt) search(ctx context.Context, groups []requestspec.Group, candidate Candidate) (matching.Mappings, error) {
	traits := make(map[string][]string, len(candidate.Allocations))
	var allocated []matching.Allocated
	for _, provider := range slices.Sorted(maps.Keys(candidate.Allocations)) {
		names, err := a.flow.placement.traits(ctx, provider)
		if err != nil {
			return nil, err
		}
		traits[provider] = names
		allocated = append(allocated, matching.Allocated{Provider: provider, Resources: candidate.Allocations[provider]})
	}
	found, err := matching.Search(groups, allocated, traits, matching.SearchOpts{})
	if err != nil {
		return nil, err
	}
	mappings := make(matching.Mappings, len(found))
	for id, provider := range found {
		mappings[id] = []string{provider}
	}
	return mappings, nil
}

func (p placement) traits(ctx context.Context, provider string) ([]string, error) {
	var names []string
	err := p.call(ctx, "GET resource_providers traits", provider, http.StatusOK, func() error {
		answer, err := resourceproviders.GetTraits(ctx, p.service(), provider).Extract()
		if err == nil {
			names = answer.Traits
		}
		return err
	})
	return names, err
}

// isProfileGroup reports whether a requester id is that of a profile's group.
func isProfileGroup(id string) bool {
	return strings.HasPrefix(id, strings.TrimSuffix(requestspec.RequesterID(0), "0"))
}
