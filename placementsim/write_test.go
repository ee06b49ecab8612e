package placementsim

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// TestProviderIsWhatJSONSays compares the representation of a provider with that of package json.
func TestProviderIsWhatJSONSays(t *testing.T) {
	t.Parallel()
	server := newServer(t, Config{}, WithPrefix("/placement"))
	rapid.Check(t, func(t *rapid.T) {
		p := engine.Provider{
			UUID: rp1, Root: rp1, Generation: rapid.Int().Draw(t, "generation"),
			Name: rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&"\\/ ]*`)).Draw(t, "name"),
		}
		if rapid.Bool().Draw(t, "has a parent") {
			p.Parent, p.Root = rp2, rp3
		}
		v := version(rapid.IntRange(0, 39).Draw(t, "version"))
		got := string((&call{Call: new(simhttp.Call), server: server, version: v}).appendProvider(nil, &p))
		if diff := cmp.Diff(providerJSON(t, p, v), got); diff != "" {
			t.Fatalf("provider at 1.%d (-want +got):\n%s", v, diff)
		}
	})
}

func providerJSON(t *rapid.T, p engine.Provider, v version) string {
	type provider struct {
		Generation int        `json:"generation"`
		UUID       string     `json:"uuid"`
		Links      []linkBody `json:"links"`
		Name       string     `json:"name"`
	}
	href := "/placement/resource_providers/" + p.UUID
	body := provider{p.Generation, p.UUID, []linkBody{{"self", href}}, p.Name}
	for _, link := range []addition{{0, "inventories"}, {0, "usages"}, {1, "aggregates"}, {6, "traits"}, {11, "allocations"}} {
		if v >= link.since {
			body.Links = append(body.Links, linkBody{link.name, href + "/" + link.name})
		}
	}
	var value any = body
	if v >= 14 {
		parent := &p.Parent
		if p.Parent == "" {
			parent = nil
		}
		value = struct {
			provider
			Parent *string `json:"parent_provider_uuid"`
			Root   string  `json:"root_provider_uuid"`
		}{body, parent, p.Root}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}
