package layout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// peer is as much of Placement as the layouts use. It records what is written.
type peer struct {
	providers map[string]*provider // by UUID
	names     map[string]bool      // traits and resource classes
	writes    []string
	conflicts int // writes to be refused for their generation
	lost      int // creations of providers whose answer is lost
	untold    int // the write of inventories whose answer is lost, from 1 on
}

type provider struct {
	UUID       string `json:"uuid"`
	Name       string `json:"name"`
	Parent     string `json:"parent_provider_uuid"`
	Generation int    `json:"generation"`

	inventories map[string]store.Inventory
	traits      []string
	usages      map[string]int
}

func newPeer() *peer {
	host := &provider{UUID: "host", Name: "cn0", usages: map[string]int{"VCPU": 2, "CUSTOM_USED": 1}, inventories: map[string]store.Inventory{"VCPU": {Total: 8, MaxUnit: 8}}, traits: []string{"COMPUTE_NODE"}}
	return &peer{providers: map[string]*provider{"host": host}, names: map[string]bool{"OWNER_CYBORG": true}}
}

func (p *peer) client() *layout.Client {
	return &layout.Client{Peer: simhttp.Peer{
		Endpoint: sim.Endpoint{URL: "http://placement", Client: &http.Client{Transport: simhttp.NewTransport(p)}}, Agent: "test",
	}}
}

// ServeHTTP implements http.Handler.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		provider
		Inventories  map[string]store.Inventory `json:"inventories"`
		Traits       []string                   `json:"traits"`
		Class        string                     `json:"resource_class"`
		ByGeneration *int                       `json:"resource_provider_generation"`
		store.Inventory
	}
	if data, err := simhttp.ReadBody(r); err == nil && len(data) > 0 {
		if err := json.Unmarshal(data, &body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if path[0] != "resource_providers" {
		p.serveName(w, r, path[1])
		return
	}
	if r.Method == http.MethodPost && len(path) == 1 {
		p.create(w, r, body.provider)
		return
	}
	if len(path) == 1 {
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"resource_providers": slices.Collect(maps.Values(p.providers))})
		return
	}
	target, ok := p.providers[path[1]]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if slices.ContainsFunc(body.Traits, func(trait string) bool { return strings.HasPrefix(trait, "CUSTOM_") && !p.names[trait] }) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if body.ByGeneration != nil {
		if p.conflicts > 0 || *body.ByGeneration != target.Generation {
			p.conflicts--
			target.Generation++
			w.WriteHeader(http.StatusConflict)
			return
		}
		target.Generation++
	}
	switch what := strings.Join(path[2:], "/"); {
	case what == "" && r.Method == http.MethodDelete:
		p.log(r, "")
		delete(p.providers, path[1])
	case what == "":
		simhttp.WriteJSON(w, http.StatusOK, target)
	case what == "traits" && r.Method == http.MethodPut:
		p.log(r, strings.Join(body.Traits, " "))
		target.traits = body.Traits
	case what == "traits":
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"traits": target.traits, "resource_provider_generation": target.Generation})
	case what == "usages":
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"usages": target.usages})
	case what == "inventories" && r.Method == http.MethodPost:
		p.log(r, amounts(map[string]store.Inventory{body.Class: body.Inventory}))
		target.inventories[body.Class] = body.Inventory
		p.tell()
	case what == "inventories" && r.Method == http.MethodGet:
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"inventories": target.inventories, "resource_provider_generation": target.Generation})
	case what == "inventories":
		p.log(r, amounts(body.Inventories))
		target.inventories = body.Inventories
		p.tell()
	default:
		p.serveInventory(w, r, target, path[3], body.Inventory)
	}
}

// create creates a provider.
func (p *peer) create(w http.ResponseWriter, r *http.Request, body provider) {
	exists := p.providers[body.UUID] != nil
	if !exists {
		p.log(r, body.Name+" below "+body.Parent)
		body.inventories = make(map[string]store.Inventory)
		p.providers[body.UUID] = &body
	}
	switch {
	case p.lost > 0:
		p.lost--
		panic(http.ErrAbortHandler)
	case exists:
		w.WriteHeader(http.StatusConflict)
	default:
		simhttp.WriteJSON(w, http.StatusOK, body)
	}
}

// serveInventory serves one inventory of a provider.
func (p *peer) serveInventory(w http.ResponseWriter, r *http.Request, target *provider, class string, amount store.Inventory) {
	have, ok := target.inventories[class]
	switch {
	case r.Method == http.MethodPut:
		p.log(r, amounts(map[string]store.Inventory{class: amount}))
		target.inventories[class] = amount
		p.tell()
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		p.log(r, "")
		delete(target.inventories, class)
	default:
		simhttp.WriteJSON(w, http.StatusOK, have)
	}
}

// tell ends a write of inventories.
func (p *peer) tell() {
	if p.untold--; p.untold == 0 {
		panic(http.ErrAbortHandler)
	}
}

// serveName serves traits and resource classes; one that is in use cannot be deleted.
func (p *peer) serveName(w http.ResponseWriter, r *http.Request, name string) {
	switch {
	case r.Method != http.MethodPut && !p.names[name]:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPut:
		if !p.names[name] {
			p.log(r, "")
		}
		p.names[name] = true
	case r.Method == http.MethodDelete && p.used(name):
		w.WriteHeader(http.StatusConflict)
	case r.Method == http.MethodDelete:
		p.log(r, "")
		delete(p.names, name)
	}
}

func (p *peer) used(name string) bool {
	for _, target := range p.providers {
		if _, has := target.inventories[name]; has || slices.Contains(target.traits, name) {
			return true
		}
	}
	return false
}

func (p *peer) log(r *http.Request, what string) {
	p.writes = append(p.writes, strings.TrimSpace(r.Method+" "+strings.TrimPrefix(r.URL.Path, "/")+" "+what))
}

// take returns the writes since the last call.
func (p *peer) take() []string {
	writes := p.writes
	p.writes = nil
	return writes
}

func amounts(inventories map[string]store.Inventory) string {
	var list []string
	for _, class := range slices.Sorted(maps.Keys(inventories)) {
		i := inventories[class]
		list = append(list, fmt.Sprintf("%s %d/%d/%d", class, i.Total, i.MaxUnit, i.Reserved))
	}
	return strings.Join(list, ", ")
}

// step is a call of a layout and what it writes. Amounts are total/max_unit/reserved.
type step struct {
	name string
	do   func(context.Context, layout.Layout) error
	want []string
}

func add(want layout.Want) func(context.Context, layout.Layout) error {
	return func(ctx context.Context, l layout.Layout) error {
		made, err := l.Add(ctx, want)
		if err == nil && !made {
			return fmt.Errorf("%s existed", want.Name)
		}
		return err
	}
}

func change(c layout.Change) func(context.Context, layout.Layout) error {
	return func(ctx context.Context, l layout.Layout) error { return l.Change(ctx, c) }
}

func remove(want layout.Want) func(context.Context, layout.Layout) error {
	return func(ctx context.Context, l layout.Layout) error { return l.Remove(ctx, want) }
}

func reserve(want layout.Want) func(context.Context, layout.Layout) error {
	return func(ctx context.Context, l layout.Layout) error { return l.Reserve(ctx, want) }
}

// with is a deployable with a difference.
func with(want layout.Want, change func(*layout.Want)) layout.Want {
	change(&want)
	return want
}

func TestWhatLayoutsWrite(t *testing.T) {
	t.Parallel()
	card := layout.Want{UUID: "card", Name: "cn0_card", Parent: "host", Class: "PGPU", Total: 2, Traits: []string{"OWNER_CYBORG", "CUSTOM_A"}}
	bigger := with(card, func(w *layout.Want) { w.Total = 3 })
	other := with(card, func(w *layout.Want) { w.Class, w.Traits = "CUSTOM_QAT", []string{"OWNER_CYBORG", "CUSTOM_B"} })
	disabled := with(other, func(w *layout.Want) { w.Reserved = 2 })
	region := layout.Want{
		UUID: "r1", Name: "cn0_r1", Parent: "board", Device: "cn0_FPGA_3b", Root: "host", Class: "FPGA", Total: 1,
		Traits: []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_REGION_INTEL_A"}, Shared: map[string]int{"CUSTOM_ACCELERATOR_MEMORY_DDR": 4096},
	}
	second := with(region, func(w *layout.Want) {
		w.UUID, w.Name, w.Traits = "r2", "cn0_r2", []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_REGION_INTEL_B"}
	})
	onHost := func(name string, total int, traits ...string) layout.Want {
		return layout.Want{UUID: "host", Name: name, Class: "PGPU", Total: total, Traits: append(traits, "OWNER_CYBORG")}
	}
	const memory = "CUSTOM_ACCELERATOR_MEMORY_DDR"
	addCard := []string{
		"POST resource_providers cn0_card below host", "PUT resource_providers/card/inventories PGPU 2/2/0",
		"PUT traits/CUSTOM_A", "PUT resource_providers/card/traits CUSTOM_A OWNER_CYBORG",
	}
	for name, tt := range map[string]struct {
		layout string
		steps  []step
	}{
		"tree": {store.LayoutTree, []step{
			{"add", add(card), addCard},
			{"more units", change(layout.Change{New: bigger, Amount: true}), []string{"PUT resource_providers/card/inventories PGPU 3/3/0"}},
			{"another class and trait", change(layout.Change{New: other, Amount: true, AddClasses: []string{"CUSTOM_QAT"}, DropClasses: []string{"PGPU"}, Add: []string{"CUSTOM_B"}, Drop: []string{"CUSTOM_A"}}), []string{
				"PUT resource_classes/CUSTOM_QAT", "PUT resource_providers/card/inventories CUSTOM_QAT 2/2/0",
				"PUT resource_providers/card/traits OWNER_CYBORG", "DELETE traits/CUSTOM_A",
				"PUT traits/CUSTOM_B", "PUT resource_providers/card/traits CUSTOM_B OWNER_CYBORG",
			}},
			{"disable", reserve(disabled), []string{"PUT resource_providers/card/inventories CUSTOM_QAT 2/2/2"}},
			{"enable", reserve(with(other, func(w *layout.Want) { w.Frees = true })), []string{"PUT resource_providers/card/inventories CUSTOM_QAT 2/2/0"}},
			{"remove", remove(other), []string{"DELETE resource_providers/card", "DELETE traits/CUSTOM_B", "DELETE resource_classes/CUSTOM_QAT"}},
			{"remove again", remove(other), nil},
		}},
		"nested": {store.LayoutNested, []step{
			{"a device of one region", add(card), addCard},
			{"the first region", add(region), []string{
				"POST resource_providers cn0_FPGA_3b below host",
				"PUT resource_classes/" + memory, "PUT resource_providers/board/inventories " + memory + " 4096/4096/0",
				"PUT traits/CUSTOM_FPGA_INTEL", "PUT resource_providers/board/traits CUSTOM_FPGA_INTEL",
				"POST resource_providers cn0_r1 below board", "PUT resource_providers/r1/inventories FPGA 1/1/0",
				"PUT traits/CUSTOM_FPGA_REGION_INTEL_A", "PUT resource_providers/r1/traits CUSTOM_FPGA_INTEL CUSTOM_FPGA_REGION_INTEL_A",
			}},
			{"the second region", add(second), []string{
				"POST resource_providers cn0_r2 below board", "PUT resource_providers/r2/inventories FPGA 1/1/0",
				"PUT traits/CUSTOM_FPGA_REGION_INTEL_B", "PUT resource_providers/r2/traits CUSTOM_FPGA_INTEL CUSTOM_FPGA_REGION_INTEL_B",
			}},
			{"disable", reserve(with(region, func(w *layout.Want) { w.Reserved = 1 })), []string{
				"PUT resource_providers/r1/inventories FPGA 1/1/1", "PUT resource_providers/board/inventories " + memory + " 4096/4096/4096",
			}},
			{"enable", reserve(with(region, func(w *layout.Want) { w.Frees = true })), []string{
				"PUT resource_providers/r1/inventories FPGA 1/1/0", "PUT resource_providers/board/inventories " + memory + " 4096/4096/0",
			}},
			{"remove the first", remove(region), []string{"DELETE resource_providers/r1", "DELETE traits/CUSTOM_FPGA_REGION_INTEL_A"}},
			{"remove the last", remove(second), []string{
				"DELETE resource_providers/r2", "DELETE traits/CUSTOM_FPGA_REGION_INTEL_B",
				"DELETE resource_providers/board", "DELETE traits/CUSTOM_FPGA_INTEL", "DELETE resource_classes/" + memory,
			}},
			{"remove the other device", remove(card), []string{"DELETE resource_providers/card", "DELETE traits/CUSTOM_A"}},
		}},
		"flat": {store.LayoutFlat, []step{
			{"add", add(onHost("cn0_a", 1, "CUSTOM_A")), []string{
				"POST resource_providers/host/inventories PGPU 1/1/0",
				"PUT traits/CUSTOM_A", "PUT resource_providers/host/traits COMPUTE_NODE CUSTOM_A",
			}},
			{"add another", add(onHost("cn0_b", 2, "CUSTOM_A")), []string{"PUT resource_providers/host/inventories/PGPU PGPU 3/3/0"}},
			{"more units", change(layout.Change{New: onHost("cn0_b", 3, "CUSTOM_A"), Amount: true}), []string{"PUT resource_providers/host/inventories/PGPU PGPU 4/4/0"}},
			{"nothing differs", change(layout.Change{New: onHost("cn0_b", 3, "CUSTOM_A")}), nil},
			{"another trait", change(layout.Change{New: onHost("cn0_b", 3, "CUSTOM_B"), Add: []string{"CUSTOM_B"}}), []string{
				"PUT traits/CUSTOM_B", "PUT resource_providers/host/traits COMPUTE_NODE CUSTOM_A CUSTOM_B",
			}},
			{"disable", reserve(with(onHost("cn0_b", 3, "CUSTOM_B"), func(w *layout.Want) { w.Reserved = 3 })), []string{
				"PUT resource_providers/host/inventories/PGPU PGPU 4/4/3",
			}},
			{"remove", remove(onHost("cn0_b", 3)), []string{
				"PUT resource_providers/host/inventories/PGPU PGPU 1/1/0",
				"PUT resource_providers/host/traits COMPUTE_NODE CUSTOM_A", "DELETE traits/CUSTOM_B",
			}},
			{"remove the last", remove(onHost("cn0_a", 1)), []string{
				"DELETE resource_providers/host/inventories/PGPU", "PUT resource_providers/host/traits COMPUTE_NODE", "DELETE traits/CUSTOM_A",
			}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer()
			l := layout.New(tt.layout, p.client(), store.New(store.Config{Layout: tt.layout}))
			for _, s := range tt.steps {
				if err := s.do(t.Context(), l); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
				if diff := cmp.Diff(s.want, p.take()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", s.name, diff)
				}
			}
			if diff := p.difference(); diff != "" {
				t.Errorf("left behind (-want +got):\n%s", diff)
			}
		})
	}
}

// An operator, or Nova for a device that is used once, reserves what Cyborg reported.
func TestReservedByOthersStaysReserved(t *testing.T) {
	t.Parallel()
	card := layout.Want{UUID: "card", Name: "cn0_card", Parent: "host", Class: "PGPU", Total: 2, Memory: map[string]int{"CUSTOM_M": 8}, Traits: []string{"OWNER_CYBORG"}}
	onHost := with(card, func(w *layout.Want) { w.UUID, w.Parent, w.Memory = "host", "", nil })
	for name, tt := range map[string]struct {
		layout string
		card   layout.Want
		want   []string // of a device that grows, is disabled and is enabled
	}{
		"tree": {store.LayoutTree, card, []string{
			"PUT resource_providers/card/inventories CUSTOM_M 8/8/5, PGPU 3/3/1", "PUT resource_providers/card/inventories CUSTOM_M 8/8/8, PGPU 3/3/3",
			"PUT resource_providers/card/inventories CUSTOM_M 8/8/0, PGPU 3/3/0",
		}},
		"flat": {store.LayoutFlat, onHost, []string{
			"PUT resource_providers/host/inventories/PGPU PGPU 3/3/1", "PUT resource_providers/host/inventories/PGPU PGPU 3/3/3", "PUT resource_providers/host/inventories/PGPU PGPU 3/3/0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer()
			l := layout.New(tt.layout, p.client(), store.New(store.Config{Layout: tt.layout}))
			if _, err := l.Add(t.Context(), tt.card); err != nil {
				t.Fatal(err)
			}
			there := p.providers[tt.card.UUID].inventories
			there["PGPU"] = store.Inventory{Total: 2, MaxUnit: 2, Reserved: 1}
			there["CUSTOM_M"] = store.Inventory{Total: 8, MaxUnit: 8, Reserved: 5}
			p.take()
			bigger := with(tt.card, func(w *layout.Want) { w.Total = 3 })
			disabled := with(bigger, func(w *layout.Want) { w.Reserved = 3 })
			enabled := with(bigger, func(w *layout.Want) { w.Frees = true })
			for _, do := range []func(context.Context, layout.Layout) error{
				change(layout.Change{New: bigger, Amount: true}), reserve(disabled), reserve(enabled),
			} {
				if err := do(t.Context(), l); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(tt.want, p.take()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// A write whose answer was lost is undone by the next one.
func TestAReservationWhoseAnswerIsLostIsUndone(t *testing.T) {
	t.Parallel()
	card := layout.Want{UUID: "card", Name: "cn0_card", Parent: "host", Class: "PGPU", Total: 2, Memory: map[string]int{"CUSTOM_M": 8}}
	onHost := with(card, func(w *layout.Want) { w.UUID, w.Parent = "host", "" })
	region := layout.Want{UUID: "r1", Name: "cn0_r1", Parent: "board", Device: "cn0_FPGA_3b", Root: "host", Class: "FPGA", Total: 1, Shared: map[string]int{"CUSTOM_M": 8}}
	for name, want := range map[string]layout.Want{store.LayoutTree: card, store.LayoutFlat: onHost, store.LayoutNested: region} {
		for _, untold := range []int{1, 2} {
			if name == store.LayoutTree && untold == 2 {
				continue // there is one write
			}
			p := newPeer()
			l := layout.New(name, p.client(), store.New(store.Config{Layout: name}))
			if _, err := l.Add(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			p.untold = untold
			if err := l.Reserve(t.Context(), with(want, func(w *layout.Want) { w.Reserved = w.Total })); err == nil {
				t.Errorf("%s: the answer to write %d is not lost", name, untold)
			}
			if err := l.Reserve(t.Context(), with(want, func(w *layout.Want) { w.Frees = true })); err != nil {
				t.Error(err)
			}
			for _, there := range p.providers {
				for class, amount := range there.inventories {
					if amount.Reserved > 0 {
						t.Errorf("%s, answer %d lost: %d of %s on %s are reserved", name, untold, amount.Reserved, class, there.Name)
					}
				}
			}
		}
	}
}

// difference is what differs from a peer to which nothing was written.
func (p *peer) difference() string {
	fresh := newPeer()
	return cmp.Diff(fresh.names, p.names) +
		cmp.Diff(fresh.providers, p.providers, cmp.AllowUnexported(provider{}), cmpopts.IgnoreFields(provider{}, "Generation"))
}

func TestAWriteIsRepeatedAfterConflicts(t *testing.T) {
	t.Parallel()
	want := layout.Want{UUID: "card", Name: "cn0_card", Parent: "host", Class: "PGPU", Total: 2, Traits: []string{"CUSTOM_A"}}
	for conflicts, works := range map[int]bool{0: true, 1: true, 4: true, 5: false} {
		p := newPeer()
		p.conflicts = conflicts
		l := layout.New(store.LayoutTree, p.client(), store.New(store.Config{Layout: store.LayoutTree}))
		made, err := l.Add(t.Context(), want)
		if (err == nil) != works || !made {
			t.Errorf("%d conflicts: made %t, %v", conflicts, made, err)
		}
		if err := l.Remove(t.Context(), want); err != nil || p.difference() != "" {
			t.Errorf("%d conflicts: removed: %v, left behind: %s", conflicts, err, p.difference())
		}
	}
}

func TestAnExistingProviderIsAdoptedIfItIsCyborgs(t *testing.T) {
	t.Parallel()
	want := layout.Want{UUID: "card", Name: "cn0_card", Parent: "host", Class: "PGPU", Total: 2, New: true}
	for _, existing := range []provider{
		{UUID: "card", Name: "cn0_card", Parent: "host", Generation: 3, usages: map[string]int{"PGPU": 1}},
		{UUID: "card", Name: "cn0_card", Parent: "host"},
		{UUID: "card", Name: "cn0_card", Parent: "host", Generation: 2},
		{UUID: "card", Name: "cn0_card", Parent: "other"},
		{UUID: "card", Name: "other", Parent: "host"},
	} {
		p := newPeer()
		p.providers["card"] = &existing
		l := layout.New(store.LayoutTree, p.client(), store.New(store.Config{Layout: store.LayoutTree}))
		untouched := existing.Generation == 0
		made, err := l.Add(t.Context(), want)
		if ours := existing.Name == want.Name && existing.Parent == want.Parent && existing.usages == nil; made != (ours && untouched) || (err == nil) != ours {
			t.Errorf("%+v: made %t, %v", existing, made, err)
		}
	}
}

// A provider is created by this call, or an older one exists, and the answer is lost.
func TestALostCreationIsLookedInto(t *testing.T) {
	t.Parallel()
	want := layout.Want{UUID: "card", Name: "cn0_card", Parent: "host", Class: "PGPU", Total: 2}
	for name, older := range map[string]*provider{"new": nil, "older": {UUID: "card", Name: "cn0_card", Parent: "host", Generation: 2}} {
		p := newPeer()
		p.lost = 1
		if older != nil {
			p.providers["card"] = older
		}
		l := layout.New(store.LayoutTree, p.client(), store.New(store.Config{Layout: store.LayoutTree}))
		if made, err := l.Add(t.Context(), want); err == nil || made != (older == nil) {
			t.Errorf("%s: made %t, %v", name, made, err)
		}
	}
}

// On a flat host an inventory that exists is adopted only if it is what the report comes to.
func TestAnInventoryOfAFlatHostIsAdopted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		class  string
		there  store.Inventory
		adopts bool
	}{
		"the same total":    {"PGPU", store.Inventory{Total: 3, MaxUnit: 3}, true},
		"another total":     {"PGPU", store.Inventory{Total: 2, MaxUnit: 2}, false},
		"another max_unit":  {"PGPU", store.Inventory{Total: 3, MaxUnit: 1}, false},
		"vGPUs are Nova's":  {"VGPU", store.Inventory{Total: 3, MaxUnit: 3}, false},
		"an instance's":     {"CUSTOM_USED", store.Inventory{Total: 3, MaxUnit: 3}, false},
		"nothing was there": {"PGPU", store.Inventory{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer()
			if tt.there.Total > 0 {
				p.providers["host"].inventories[tt.class] = tt.there
			}
			l := layout.New(store.LayoutFlat, p.client(), store.New(store.Config{Layout: store.LayoutFlat}))
			l.BeginReport("host", map[string]int{tt.class: 3})
			first := layout.Want{UUID: "host", Name: "cn0_a", Class: tt.class, Total: 1}
			second := layout.Want{UUID: "host", Name: "cn0_b", Class: tt.class, Total: 2}
			_, err := l.Add(t.Context(), first)
			if (err == nil) != tt.adopts {
				t.Fatalf("first deployable: %v", err)
			}
			if !tt.adopts {
				if got := p.providers["host"].inventories[tt.class]; got != tt.there {
					t.Errorf("the foreign inventory is now %+v", got)
				}
				return
			}
			if _, err := l.Add(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			if err := l.EndReport(t.Context(), "host"); err != nil {
				t.Fatal(err)
			}
			if got, want := p.providers["host"].inventories[tt.class], (store.Inventory{Total: 3, MaxUnit: 3}); got != want {
				t.Errorf("inventory %+v, want %+v", got, want)
			}
			for _, w := range []layout.Want{first, second} {
				if err := l.Remove(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			if diff := p.difference(); diff != "" {
				t.Errorf("left behind (-want +got):\n%s", diff)
			}
		})
	}
}

// The first of the devices of a flat host is on its provider, and the answer is lost.
func TestALostCreationOfAnInventoryIsLookedInto(t *testing.T) {
	t.Parallel()
	first := layout.Want{UUID: "host", Name: "cn0_a", Class: "PGPU", Total: 1}
	second := with(first, func(w *layout.Want) { w.Name = "cn0_b" })
	for name, undone := range map[string]bool{"taken back": true, "tried again": false} {
		p := newPeer()
		l := layout.New(store.LayoutFlat, p.client(), store.New(store.Config{Layout: store.LayoutFlat}))
		l.BeginReport("host", map[string]int{"PGPU": 2})
		p.untold = 1
		if _, err := l.Add(t.Context(), first); err == nil {
			t.Errorf("%s: the answer is not lost", name)
		}
		if undone {
			if err := l.Remove(t.Context(), first); err != nil {
				t.Error(err)
			}
			if diff := p.difference(); diff != "" {
				t.Errorf("%s: left behind (-want +got):\n%s", name, diff)
			}
		}
		for _, want := range []layout.Want{first, second} {
			if _, err := l.Add(t.Context(), want); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := p.providers["host"].inventories["PGPU"]; got.Total != 2 || got.MaxUnit != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Placement has lost a region, and may have lost the device above it.
func TestADeviceWhoseRegionIsLostKeepsNoTraitOfBefore(t *testing.T) {
	t.Parallel()
	region := layout.Want{
		UUID: "r1", Name: "cn0_r1", Parent: "board", Device: "cn0_FPGA_3b", Root: "host", Class: "FPGA", Total: 1,
		Traits: []string{"CUSTOM_OLD"}, Shared: map[string]int{"CUSTOM_M": 8},
	}
	changed := with(region, func(w *layout.Want) { w.Traits, w.Shared = []string{"CUSTOM_NEW"}, nil })
	for name, lost := range map[string][]string{"the region": {"r1"}, "both": {"r1", "board"}} {
		p := newPeer()
		l := layout.New(store.LayoutNested, p.client(), store.New(store.Config{Layout: store.LayoutNested}))
		if _, err := l.Add(t.Context(), region); err != nil {
			t.Fatal(err)
		}
		for _, uuid := range lost {
			delete(p.providers, uuid)
		}
		l.Forget(region)
		if _, err := l.Add(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		if board := p.providers["board"]; !slices.Equal(board.traits, []string{"CUSTOM_NEW"}) || len(board.inventories) > 0 {
			t.Errorf("%s: the device has traits %v and inventories %v", name, board.traits, board.inventories)
		}
		if err := l.Remove(t.Context(), changed); err != nil || p.difference() != "" {
			t.Errorf("%s: removed: %v, left behind: %s", name, err, p.difference())
		}
	}
}
