package placement

import (
	"context"
	"iter"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/jsonread"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Candidates is a response to GET /allocation_candidates.
type Candidates struct {
	Requests  []AllocationRequest
	Providers Providers
}

// AllocationRequest is one candidate. Candidates of one response share equal amounts.
type AllocationRequest struct {
	Allocations Resources
	Mappings    map[string][]string // nil before Placement 1.34
}

// Providers are the provider summaries of a response. Traits and resources make up most of a response, but only
// weighers read them: each distinct text is stored once and decoded on demand.
type Providers struct {
	index     map[string]int32 // by UUID
	uuids     []string
	rows      []row    // of the same providers
	traits    []string // JSON, which was checked
	kinds     []Kind   // by traits
	resources []string // JSON, which was checked
}

// row is the summary of a provider: the numbers of other providers, of its traits and of its resources, from 1 on; 0
// if missing.
type row struct {
	given                           bool // false: only mentioned
	parent, root, traits, resources int32
}

const (
	// TraitOwnerNova is on the compute node and on the providers of Nova's devices.
	TraitOwnerNova = "OWNER_NOVA"
	// TraitShares is on the providers that share their inventory with other trees.
	TraitShares = "MISC_SHARES_VIA_AGGREGATE"
)

// Kind is a set of properties of a provider, derived from its traits.
type Kind uint8

// The kinds of providers.
const (
	KindNova   Kind = 1 << iota // OWNER_NOVA
	KindCyborg                  // OWNER_CYBORG, which not every Cyborg driver reports
	KindShares                  // shares its inventory with other trees
)

// kindOf returns the kind for a trait; 0 for other traits.
func kindOf(trait string) Kind {
	switch trait {
	case TraitOwnerNova:
		return KindNova
	case "OWNER_CYBORG":
		return KindCyborg
	case TraitShares:
		return KindShares
	}
	return 0
}

// Summary is the summary of a provider in a response.
type Summary struct {
	Parent, Root string // UUIDs; empty before Placement 1.29, and without a parent
	Kind         Kind

	traits, resources int32
}

// Len returns the number of providers, including providers that are only mentioned.
func (p *Providers) Len() int { return len(p.rows) }

// Of returns the summary of a provider, or the zero value.
func (p *Providers) Of(uuid string) Summary {
	if i, known := p.index[uuid]; known {
		return p.summary(p.rows[i])
	}
	return Summary{}
}

// All returns the summaries by UUID.
func (p *Providers) All() iter.Seq2[string, Summary] {
	return func(yield func(string, Summary) bool) {
		for i, row := range p.rows {
			if row.given && !yield(p.uuids[i], p.summary(row)) {
				return
			}
		}
	}
}

func (p *Providers) summary(r row) Summary {
	s := Summary{traits: r.traits, resources: r.resources}
	if r.parent > 0 {
		s.Parent = p.uuids[r.parent-1]
	}
	if r.root > 0 {
		s.Root = p.uuids[r.root-1]
	}
	if r.traits > 0 {
		s.Kind = p.kinds[r.traits-1]
	}
	return s
}

// Details decodes traits and resources of providers for weighers. Equal values of a response are shared.
type Details struct {
	Providers *Providers

	traits    map[int32][]string
	resources map[int32][2]map[string]int
}

// Traits returns the traits of a provider.
func (d *Details) Traits(s Summary) []string {
	names, known := d.traits[s.traits]
	if !known && s.traits > 0 {
		r := jsonread.New([]byte(d.Providers.traits[s.traits-1]))
		r.Array(func() { names = append(names, string(r.String())) })
		if d.traits == nil {
			d.traits = map[int32][]string{}
		}
		d.traits[s.traits] = slices.Clip(names)
	}
	return names
}

// Resources returns the capacity and the used amount of a provider, by resource class.
func (d *Details) Resources(s Summary) (capacity, used map[string]int) {
	amounts, known := d.resources[s.resources]
	if !known {
		amounts = [2]map[string]int{{}, {}}
		if s.resources > 0 {
			r := jsonread.New([]byte(d.Providers.resources[s.resources-1]))
			r.Object(func(class []byte) { amounts[0][string(class)], amounts[1][string(class)] = inventory(&r) })
		}
		if d.resources == nil {
			d.resources = map[int32][2]map[string]int{}
		}
		d.resources[s.resources] = amounts
	}
	return amounts[0], amounts[1]
}

// Candidates requests allocation candidates. The response is decoded in one pass: gophercloud decodes it with
// encoding/json into generic maps, which took two thirds of a spawn.
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
		return c.read(resp, func(text []byte) (err error) {
			answer, err = decodeCandidates(text)
			return err
		})
	})
	return answer, err
}
