package placement

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Candidates is an answer to a request for allocation candidates.
type Candidates struct {
	Requests  []AllocationRequest
	Providers Providers
}

// AllocationRequest is one candidate.
type AllocationRequest struct {
	Allocations Resources
	Mappings    map[string][]string // nil before Placement 1.34
}

// Providers are the summaries of the providers of an answer, by UUID.
type Providers map[string]Summary

// TraitOwnerNova is on the compute node and on the providers of Nova's devices.
const TraitOwnerNova = "OWNER_NOVA"

// Summary is what an answer tells of a provider. Traits and resources are read when they
// are asked for: only weighers do, and they are most of an answer.
type Summary struct {
	Parent, Root string // UUIDs; empty before Placement 1.29, and without a parent
	OwnerNova    bool   // has the trait OWNER_NOVA
	Shares       bool   // shares its inventory with other trees

	traits, resources string // JSON, which was checked
}

// Traits returns the traits of the provider.
func (s Summary) Traits() (names []string) {
	r := reader{text: s.traits}
	r.array(func() { names = append(names, r.string()) })
	return names
}

// Resources returns capacity and used amount by resource class.
func (s Summary) Resources() (capacity, used map[string]int) {
	capacity, used = map[string]int{}, map[string]int{}
	r := reader{text: s.resources}
	r.object(func(class string) { capacity[class], used[class] = r.inventory() })
	return capacity, used
}

// Candidates requests allocation candidates. The answer is walked once: gophercloud decodes
// it with encoding/json into maps of everything, which took two thirds of a spawn.
func (c *Client) Candidates(ctx context.Context, spec requestspec.RequestSpec) (*Candidates, error) {
	client := c.service()
	client.Microversion = spec.Microversion()
	var answer *Candidates
	err := call(ctx, "GET allocation_candidates", "", http.StatusOK, func(ctx context.Context) error {
		resp, err := client.Get(ctx, client.ServiceURL("allocation_candidates")+"?"+spec.Query(), nil,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}, KeepResponseBody: true})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var text strings.Builder
		if resp.ContentLength > 0 && resp.ContentLength <= maxHint {
			text.Grow(int(resp.ContentLength))
		}
		if _, err := io.Copy(&text, resp.Body); err != nil {
			return err
		}
		answer, err = decodeCandidates(text.String())
		return err
	})
	return answer, err
}

// maxHint is the largest length of an answer that is believed before it is read.
const maxHint = 16 << 20

// decodeCandidates reads an answer. A member that is missing or null is empty, of one that
// is given twice the last counts, and others are ignored.
func decodeCandidates(text string) (*Candidates, error) {
	r := reader{text: text}
	answer := &Candidates{Providers: Providers{}}
	r.object(func(key string) {
		switch key {
		case "allocation_requests":
			answer.Requests = nil
			r.array(func() { answer.Requests = append(answer.Requests, r.allocationRequest()) })
		case "provider_summaries":
			answer.Providers = Providers{}
			r.object(func(provider string) { answer.Providers[provider] = r.summary() })
		default:
			r.skip()
		}
	})
	if err := r.end(); err != nil {
		return nil, err
	}
	return answer, nil
}

func (r *reader) allocationRequest() (request AllocationRequest) {
	r.object(func(key string) {
		switch key {
		case "allocations":
			request.Allocations = Resources{}
			r.object(func(provider string) { request.Allocations[provider] = r.amounts() })
		case "mappings":
			request.Mappings = r.mappings()
		default:
			r.skip()
		}
	})
	return request
}

// amounts reads {"resources": {"PGPU": 1}}.
func (r *reader) amounts() (amounts map[string]int) {
	r.object(func(key string) {
		if key != "resources" {
			r.skip()
			return
		}
		amounts = map[string]int{}
		r.object(func(class string) { amounts[class] = r.int() })
	})
	return amounts
}

func (r *reader) mappings() map[string][]string {
	if r.null() {
		return nil
	}
	mappings := map[string][]string{}
	r.object(func(group string) {
		var providers []string
		r.array(func() { providers = append(providers, r.string()) })
		mappings[group] = providers
	})
	return mappings
}

func (r *reader) summary() (s Summary) {
	r.object(func(key string) {
		switch key {
		case "parent_provider_uuid":
			s.Parent = r.optional()
		case "root_provider_uuid":
			s.Root = r.optional()
		case "traits":
			begin := r.begin()
			s.OwnerNova, s.Shares = false, false
			r.array(func() {
				trait := r.string()
				s.OwnerNova = s.OwnerNova || trait == TraitOwnerNova
				s.Shares = s.Shares || trait == "MISC_SHARES_VIA_AGGREGATE"
			})
			s.traits = r.since(begin)
		case "resources":
			begin := r.begin()
			r.object(func(string) { r.inventory() })
			s.resources = r.since(begin)
		default:
			r.skip()
		}
	})
	return s
}

// inventory reads {"capacity": 8, "used": 1}.
func (r *reader) inventory() (capacity, used int) {
	r.object(func(key string) {
		switch key {
		case "capacity":
			capacity = r.int()
		case "used":
			used = r.int()
		default:
			r.skip()
		}
	})
	return capacity, used
}
