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
	var s Summary
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

// Details is the summary of a provider with its traits, and the capacity and the used amount by resource class.
type Details struct {
	Summary
	Traits         []string
	Capacity, Used map[string]int
}

// Details returns the summaries by UUID, with traits and resources. Equal values of a response are shared.
func (p *Providers) Details() iter.Seq2[string, Details] {
	return func(yield func(string, Details) bool) {
		traits, resources := make([][]string, len(p.traits)+1), make([][2]map[string]int, len(p.resources)+1)
		for i, text := range p.traits {
			r := jsonread.New([]byte(text))
			r.Array(func() { traits[i+1] = append(traits[i+1], string(r.String())) })
			traits[i+1] = slices.Clip(traits[i+1])
		}
		for i, text := range p.resources {
			capacity, used := map[string]int{}, map[string]int{}
			r := jsonread.New([]byte(text))
			r.Object(func(class []byte) { capacity[string(class)], used[string(class)] = inventory(&r) })
			resources[i+1] = [2]map[string]int{capacity, used}
		}
		for i, row := range p.rows {
			d := Details{p.summary(row), traits[row.traits], resources[row.resources][0], resources[row.resources][1]}
			if row.given && !yield(p.uuids[i], d) {
				return
			}
		}
	}
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
