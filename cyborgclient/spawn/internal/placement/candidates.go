package placement

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Candidates is an answer to a request for allocation candidates.
type Candidates struct {
	Requests  []AllocationRequest
	Providers Providers
}

// AllocationRequest is one candidate. Those of one answer share the amounts that are equal.
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

// Details are what only weighers read of providers. Equal ones of an answer are shared.
type Details struct {
	traits    map[string][]string
	resources map[string][2]map[string]int
}

// Traits returns the traits of a provider.
func (d *Details) Traits(s Summary) []string {
	names, known := d.traits[s.traits]
	if !known {
		r := reader{text: s.traits}
		r.array(func() { names = append(names, r.string()) })
		if d.traits == nil {
			d.traits = map[string][]string{}
		}
		d.traits[s.traits] = slices.Clip(names)
	}
	return names
}

// Resources returns capacity and used amount of a provider by resource class.
func (d *Details) Resources(s Summary) (capacity, used map[string]int) {
	amounts, known := d.resources[s.resources]
	if !known {
		amounts = [2]map[string]int{{}, {}}
		r := reader{text: s.resources}
		r.object(func(class string) { amounts[0][class], amounts[1][class] = r.inventory() })
		if d.resources == nil {
			d.resources = map[string][2]map[string]int{}
		}
		d.resources[s.resources] = amounts
	}
	return amounts[0], amounts[1]
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
		text, err := c.readText(resp)
		if err == nil {
			answer, err = decodeCandidates(text)
		}
		return err
	})
	return answer, err
}

// maxLength is the largest length of an answer that is believed before it is read.
const maxLength = 16 << 20

// readText reads an answer.
func (c *Client) readText(resp *http.Response) (string, error) {
	defer resp.Body.Close()
	chunk, _ := c.chunks.Get().(*[32 << 10]byte)
	if chunk == nil {
		chunk = new([32 << 10]byte)
	}
	defer c.chunks.Put(chunk)
	var text strings.Builder
	if resp.ContentLength > 0 && resp.ContentLength <= maxLength {
		text.Grow(int(resp.ContentLength))
	}
	_, err := io.CopyBuffer(&text, resp.Body, chunk[:])
	return text.String(), err
}

// summaryLength is about the length of a summary in bytes.
const summaryLength = 512

// decodeCandidates reads an answer. A member that is missing or null is empty, of one that
// is given twice the last counts, and others are ignored.
func decodeCandidates(text string) (*Candidates, error) {
	r := reader{text: text}
	amounts := map[string]map[string]int{}
	answer := &Candidates{Providers: Providers{}}
	r.object(func(key string) {
		switch key {
		case "allocation_requests":
			answer.Requests = nil
			r.array(func() { answer.Requests = append(answer.Requests, r.allocationRequest(amounts)) })
		case "provider_summaries":
			answer.Providers = make(Providers, (len(r.text)-r.at)/summaryLength)
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

// allocationRequest reads a candidate, and the amounts whose text was not read before.
func (r *reader) allocationRequest(amounts map[string]map[string]int) (request AllocationRequest) {
	r.object(func(key string) {
		switch key {
		case "allocations":
			request.Allocations = Resources{}
			r.object(func(provider string) {
				begin := r.begin()
				r.skip()
				text := r.since(begin)
				known, read := amounts[text]
				if !read && r.err == nil {
					r.at = begin
					known = r.amounts()
					amounts[text] = known
				}
				request.Allocations[provider] = known
			})
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
