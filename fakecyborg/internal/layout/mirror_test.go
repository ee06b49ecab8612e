package layout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// peer implements the part of Placement that the mirror uses. It records the writes.
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

	inventories map[string]amount
	traits      []string
	usages      map[string]int
}

// amount is an inventory on the wire.
type amount struct {
	Total    int `json:"total"`
	MaxUnit  int `json:"max_unit"`
	Reserved int `json:"reserved"`
}

func newPeer() *peer {
	host := &provider{UUID: "host", Name: "cn0", usages: map[string]int{"VCPU": 2, "CUSTOM_USED": 1}, inventories: map[string]amount{"VCPU": {Total: 8, MaxUnit: 8}}, traits: []string{"COMPUTE_NODE"}}
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
		Inventories  map[string]amount `json:"inventories"`
		Traits       []string          `json:"traits"`
		Class        string            `json:"resource_class"`
		ByGeneration *int              `json:"resource_provider_generation"`
		amount
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
		p.log(r, amounts(map[string]amount{body.Class: body.amount}))
		target.inventories[body.Class] = body.amount
		p.tell()
	case what == "inventories" && r.Method == http.MethodGet:
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"inventories": target.inventories, "resource_provider_generation": target.Generation})
	case what == "inventories":
		p.log(r, amounts(body.Inventories))
		target.inventories = body.Inventories
		p.tell()
	default:
		p.serveInventory(w, r, target, path[3], body.amount)
	}
}

// create creates a provider.
func (p *peer) create(w http.ResponseWriter, r *http.Request, body provider) {
	exists := p.providers[body.UUID] != nil
	if !exists {
		p.log(r, body.Name+" below "+p.providers[body.Parent].Name)
		body.inventories = make(map[string]amount)
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
func (p *peer) serveInventory(w http.ResponseWriter, r *http.Request, target *provider, class string, is amount) {
	have, ok := target.inventories[class]
	switch {
	case r.Method == http.MethodPut:
		p.log(r, amounts(map[string]amount{class: is}))
		target.inventories[class] = is
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
	path := r.URL.Path
	for uuid, target := range p.providers {
		path = strings.Replace(path, uuid, target.Name, 1)
	}
	p.writes = append(p.writes, strings.TrimSpace(r.Method+" "+strings.TrimPrefix(path, "/")+" "+what))
}

// take returns the writes since the last call.
func (p *peer) take() []string {
	writes := p.writes
	p.writes = nil
	return writes
}

func amounts(inventories map[string]amount) string {
	var list []string
	for _, class := range slices.Sorted(maps.Keys(inventories)) {
		i := inventories[class]
		list = append(list, fmt.Sprintf("%s %d/%d/%d", class, i.Total, i.MaxUnit, i.Reserved))
	}
	return strings.Join(list, ", ")
}

// bench is a mirror of a host with devices.
type bench struct {
	*layout.Mirror
	peer    *peer
	db      *store.Store
	devices map[string]store.Device
}

func newBench(mode string) *bench {
	b := &bench{peer: newPeer(), db: store.New(store.Config{Layout: mode}), devices: make(map[string]store.Device)}
	b.Mirror = b.mirror(mode)
	return b
}

// mirror returns the mirror of another process with the same database.
func (b *bench) mirror(mode string) *layout.Mirror {
	change := func(_ context.Context, write func(store.Tx)) { b.db.Update(nil, write) }
	return layout.NewMirror(b.peer.client(), b.db, change, layout.Rules{Layout: mode})
}

// card stores a device of one deployable, or another deployable of the device.
func (b *bench) card(device, name string, spec driver.Deployable, memory map[string]int, nested bool) layout.Part {
	var part layout.Part
	spec.Name, spec.DriverName = name, "test"
	b.db.Update(nil, func(tx store.Tx) {
		d, known := b.devices[device]
		if !known {
			found := driver.Device{Type: driver.TypeFPGA, ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: driver.Info{"bus": device, "device": "00", "domain": "0000", "function": "0"}}, Resources: memory}
			d = tx.AddDevice("cn0", found, "test", nested, time.Unix(0, 0))
			b.devices[device] = d
		}
		row, err := tx.AddDeployable(d, spec, "host", time.Unix(0, 0))
		if err != nil {
			panic(err)
		}
		part = layout.Part{Device: d, Deployable: row, Spec: spec, Root: "host"}
	})
	return part
}

// put writes a part and stores that it is in Placement.
func (b *bench) put(ctx context.Context, p layout.Part) error {
	_, err := b.Put(ctx, p)
	if err == nil {
		b.db.Update(nil, func(tx store.Tx) {
			tx.OfferDeployable(p.Deployable.UUID, time.Unix(1, 0))
			_ = tx.UpdateDeployable(p.Deployable.UUID, p.Spec, time.Unix(1, 0))
			tx.SetDeviceStatus(p.Device.UUID, p.Device.Status, time.Unix(1, 0))
		})
	}
	return err
}

// remove removes a part, and its rows.
func (b *bench) remove(ctx context.Context, p layout.Part) error {
	err := b.Remove(ctx, p)
	if err == nil {
		b.db.Update(nil, func(tx store.Tx) { tx.RemoveDeployable(p.Deployable.UUID) })
	}
	return err
}

// with is a part with a difference.
func with(p layout.Part, change func(*layout.Part)) layout.Part {
	p.Deployable.Presence = store.Offered
	change(&p)
	return p
}

func disabled(p *layout.Part) { p.Device.Status = store.StatusMaintaining }
func enabled(p *layout.Part)  { p.Device.Status = store.StatusEnabled }

// step is a call of a mirror and what it writes. Amounts are total/max_unit/reserved.
type step struct {
	name string
	do   func(context.Context) error
	want []string
}

func pgpu(total int, traits ...string) driver.Deployable {
	return driver.Deployable{Class: "PGPU", NumAccelerators: total, Traits: traits}
}

func (b *bench) putting(p layout.Part) func(context.Context) error {
	return func(ctx context.Context) error { return b.put(ctx, p) }
}

func (b *bench) removing(p layout.Part) func(context.Context) error {
	return func(ctx context.Context) error { return b.remove(ctx, p) }
}

const memory = "CUSTOM_ACCELERATOR_MEMORY_DDR"

func (b *bench) treeSteps() []step {
	card := b.card("3b", "cn0_card", pgpu(2, "OWNER_CYBORG", "CUSTOM_A"), nil, false)
	bigger := with(card, func(p *layout.Part) { p.Spec.NumAccelerators = 3 })
	other := with(card, func(p *layout.Part) { p.Spec.Class, p.Spec.Traits = "CUSTOM_QAT", []string{"OWNER_CYBORG", "CUSTOM_B"} })
	return []step{
		{"add", b.putting(card), []string{
			"POST resource_providers cn0_card below cn0", "PUT resource_providers/cn0_card/inventories PGPU 2/2/0",
			"PUT traits/CUSTOM_A", "PUT resource_providers/cn0_card/traits CUSTOM_A OWNER_CYBORG",
		}},
		{"again", b.putting(with(card, enabled)), nil},
		{"more units", b.putting(bigger), []string{"PUT resource_providers/cn0_card/inventories PGPU 3/3/0"}},
		{"another class and trait", b.putting(other), []string{
			"PUT resource_classes/CUSTOM_QAT", "PUT resource_providers/cn0_card/inventories CUSTOM_QAT 2/2/0",
			"PUT resource_providers/cn0_card/traits OWNER_CYBORG", "DELETE traits/CUSTOM_A",
			"PUT traits/CUSTOM_B", "PUT resource_providers/cn0_card/traits CUSTOM_B OWNER_CYBORG",
		}},
		{"disable", b.putting(with(other, disabled)), []string{"PUT resource_providers/cn0_card/inventories CUSTOM_QAT 2/2/2"}},
		{"enable", b.putting(with(other, enabled)), []string{"PUT resource_providers/cn0_card/inventories CUSTOM_QAT 2/2/0"}},
		{"remove", b.removing(other), []string{"DELETE resource_providers/cn0_card", "DELETE traits/CUSTOM_B", "DELETE resource_classes/CUSTOM_QAT"}},
	}
}

func (b *bench) region(name string, traits ...string) layout.Part {
	return b.card("3b", name, driver.Deployable{Class: "FPGA", NumAccelerators: 1, Traits: traits}, map[string]int{memory: 4096}, true)
}

func (b *bench) nestedSteps() []step {
	whole := b.card("5e", "cn0_card", pgpu(2, "CUSTOM_A"), nil, false)
	first := b.region("cn0_r1", "CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_REGION_INTEL_A", driver.TraitProgrammable)
	second := b.region("cn0_r2", "CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_REGION_INTEL_B", driver.TraitProgrammable)
	const board = "cn0_FPGA_0000:3b:00.0"
	both := func(change func(*layout.Part)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := b.Put(ctx, with(first, change), with(second, change))
			return err
		}
	}
	return []step{
		{"a device of one region", b.putting(with(whole, func(p *layout.Part) { p.Spec.Traits = []string{"CUSTOM_A", driver.TraitProgrammable} })), []string{
			"POST resource_providers cn0_card below cn0", "PUT resource_providers/cn0_card/inventories PGPU 2/2/0",
			"PUT traits/CUSTOM_A", "PUT traits/CUSTOM_PROGRAMMABLE", "PUT resource_providers/cn0_card/traits CUSTOM_A CUSTOM_PROGRAMMABLE OWNER_CYBORG",
		}},
		{"the first region", b.putting(first), []string{
			"POST resource_providers " + board + " below cn0", "PUT resource_providers/" + board + "/inventories " + memory + " 4096/4096/0",
			"PUT traits/CUSTOM_FPGA_INTEL", "PUT resource_providers/" + board + "/traits CUSTOM_FPGA_INTEL OWNER_CYBORG",
			"POST resource_providers cn0_r1 below " + board, "PUT resource_providers/cn0_r1/inventories FPGA 1/1/0",
			"PUT traits/CUSTOM_FPGA_REGION_INTEL_A", "PUT resource_providers/cn0_r1/traits CUSTOM_FPGA_INTEL CUSTOM_FPGA_REGION_INTEL_A CUSTOM_PROGRAMMABLE OWNER_CYBORG",
		}},
		{"the second region", b.putting(second), []string{
			"POST resource_providers cn0_r2 below " + board, "PUT resource_providers/cn0_r2/inventories FPGA 1/1/0",
			"PUT traits/CUSTOM_FPGA_REGION_INTEL_B", "PUT resource_providers/cn0_r2/traits CUSTOM_FPGA_INTEL CUSTOM_FPGA_REGION_INTEL_B CUSTOM_PROGRAMMABLE OWNER_CYBORG",
		}},
		{"disable", both(disabled), []string{
			"PUT resource_providers/" + board + "/inventories " + memory + " 4096/4096/4096",
			"PUT resource_providers/cn0_r1/inventories FPGA 1/1/1", "PUT resource_providers/cn0_r2/inventories FPGA 1/1/1",
		}},
		{"enable", both(enabled), []string{
			"PUT resource_providers/" + board + "/inventories " + memory + " 4096/4096/0",
			"PUT resource_providers/cn0_r1/inventories FPGA 1/1/0", "PUT resource_providers/cn0_r2/inventories FPGA 1/1/0",
		}},
		{"remove the first", b.removing(first), []string{"DELETE resource_providers/cn0_r1", "DELETE traits/CUSTOM_FPGA_REGION_INTEL_A"}},
		{"remove the last", b.removing(second), []string{
			"DELETE resource_providers/cn0_r2", "DELETE traits/CUSTOM_FPGA_REGION_INTEL_B",
			"DELETE resource_providers/" + board, "DELETE traits/CUSTOM_FPGA_INTEL",
		}},
		{"remove the other device", b.removing(whole), []string{"DELETE resource_providers/cn0_card", "DELETE traits/CUSTOM_A", "DELETE traits/CUSTOM_PROGRAMMABLE"}},
	}
}

func (b *bench) flatSteps() []step {
	first := b.card("3b", "cn0_a", pgpu(1, "CUSTOM_A", "OWNER_CYBORG"), nil, false)
	second := b.card("5e", "cn0_b", pgpu(2, "CUSTOM_A", "OWNER_CYBORG"), nil, false)
	bigger := with(second, func(p *layout.Part) { p.Spec.NumAccelerators = 3 })
	trait := with(bigger, func(p *layout.Part) { p.Spec.Traits = []string{"CUSTOM_B"} })
	return []step{
		{"add", b.putting(first), []string{
			"POST resource_providers/cn0/inventories PGPU 1/1/0", "PUT traits/CUSTOM_A", "PUT resource_providers/cn0/traits COMPUTE_NODE CUSTOM_A",
		}},
		{"add another", b.putting(second), []string{"PUT resource_providers/cn0/inventories/PGPU PGPU 3/3/0"}},
		{"more units", b.putting(bigger), []string{"PUT resource_providers/cn0/inventories/PGPU PGPU 4/4/0"}},
		{"again", b.putting(bigger), nil},
		{"another trait", b.putting(trait), []string{"PUT traits/CUSTOM_B", "PUT resource_providers/cn0/traits COMPUTE_NODE CUSTOM_A CUSTOM_B"}},
		{"disable", b.putting(with(trait, disabled)), []string{"PUT resource_providers/cn0/inventories/PGPU PGPU 4/4/3"}},
		{"remove", b.removing(trait), []string{
			"PUT resource_providers/cn0/inventories/PGPU PGPU 1/1/0", "PUT resource_providers/cn0/traits COMPUTE_NODE CUSTOM_A", "DELETE traits/CUSTOM_B",
		}},
		{"remove the last", b.removing(first), []string{
			"DELETE resource_providers/cn0/inventories/PGPU", "PUT resource_providers/cn0/traits COMPUTE_NODE", "DELETE traits/CUSTOM_A",
		}},
	}
}

// TestWhatIsWritten checks the requests of each layout and their order, and that nothing remains at the end.
func TestWhatIsWritten(t *testing.T) {
	t.Parallel()
	for mode, steps := range map[string]func(*bench) []step{
		store.LayoutTree: (*bench).treeSteps, store.LayoutNested: (*bench).nestedSteps, store.LayoutFlat: (*bench).flatSteps,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(mode)
			for _, s := range steps(b) {
				if err := s.do(t.Context()); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
				if diff := cmp.Diff(s.want, b.peer.take()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", s.name, diff)
				}
			}
			b.checkEmpty(t)
		})
	}
}

// checkEmpty checks that Placement has its initial state, and that the mirror knows it.
func (b *bench) checkEmpty(t *testing.T) {
	t.Helper()
	fresh := newPeer()
	if diff := cmp.Diff(fresh.names, b.peer.names) +
		cmp.Diff(fresh.providers, b.peer.providers, cmp.AllowUnexported(provider{}), cmpopts.IgnoreFields(provider{}, "Generation")); diff != "" {
		t.Errorf("what remains (-want +got):\n%s", diff)
	}
	b.db.View(func(tx store.Tx) {
		for row := range tx.HostProviders("cn0") {
			t.Errorf("a row remains: %+v", row)
		}
	})
}

// An operator, or Nova for a device that is used once, reserves what Cyborg reported.
func TestReservedByOthersStaysReserved(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{
		store.LayoutTree: {
			"PUT resource_providers/cn0_card/inventories CUSTOM_M 8/8/5, PGPU 3/3/1", "PUT resource_providers/cn0_card/inventories CUSTOM_M 8/8/8, PGPU 3/3/3",
			"PUT resource_providers/cn0_card/inventories CUSTOM_M 8/8/0, PGPU 3/3/0",
		},
		store.LayoutFlat: {
			"PUT resource_providers/cn0/inventories/PGPU PGPU 3/3/1", "PUT resource_providers/cn0/inventories/CUSTOM_M CUSTOM_M 8/8/8",
			"PUT resource_providers/cn0/inventories/PGPU PGPU 3/3/3", "PUT resource_providers/cn0/inventories/CUSTOM_M CUSTOM_M 8/8/0",
			"PUT resource_providers/cn0/inventories/PGPU PGPU 3/3/0",
		},
	} {
		b := newBench(mode)
		spec := pgpu(2, "OWNER_CYBORG")
		spec.Resources = map[string]int{"CUSTOM_M": 8}
		card := b.card("3b", "cn0_card", spec, nil, false)
		if err := b.put(t.Context(), card); err != nil {
			t.Fatal(err)
		}
		there := b.peer.providers[card.Deployable.Provider].inventories
		there["PGPU"] = amount{Total: 2, MaxUnit: 2, Reserved: 1}
		there["CUSTOM_M"] = amount{Total: 8, MaxUnit: 8, Reserved: 5}
		b.peer.take()
		bigger := with(card, func(p *layout.Part) { p.Spec.NumAccelerators = 3 })
		for _, p := range []layout.Part{bigger, with(bigger, disabled), with(bigger, enabled)} {
			if err := b.put(t.Context(), p); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(want, b.peer.take()); diff != "" {
			t.Errorf("%s: writes of a device that grows, is disabled and is enabled (-want +got):\n%s", mode, diff)
		}
	}
}

// A write with a lost response is undone by the next write, of this process or another.
func TestAReservationWhoseAnswerIsLostIsUndone(t *testing.T) {
	t.Parallel()
	for mode, writes := range map[string]int{store.LayoutTree: 1, store.LayoutFlat: 2, store.LayoutNested: 2} {
		for untold := range writes {
			b := newBench(mode)
			spec := pgpu(2)
			spec.Resources = map[string]int{"CUSTOM_M": 8}
			card := b.card("3b", "cn0_card", spec, map[string]int{"CUSTOM_M": 8}, mode == store.LayoutNested)
			if err := b.put(t.Context(), card); err != nil {
				t.Fatal(err)
			}
			b.peer.untold = untold + 1
			if _, err := b.Put(t.Context(), with(card, disabled)); err == nil {
				t.Errorf("%s: the answer to write %d is not lost", mode, untold+1)
			}
			if errs := b.mirror(mode).Settle(t.Context(), "cn0", []layout.Part{with(card, enabled)}); len(errs) > 0 {
				t.Error(errs)
			}
			for _, there := range b.peer.providers {
				for class, amount := range there.inventories {
					if amount.Reserved > 0 {
						t.Errorf("%s, answer %d lost: %d of %s on %s are reserved", mode, untold+1, amount.Reserved, class, there.Name)
					}
				}
			}
		}
	}
}

// What another client reserves while the outcome of Cyborg's own reservation is unknown stays reserved.
func TestAReservationThatMayBeCyborgs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ reserved, want int }{
		"Cyborg's":       {3, 0},
		"one of another": {1, 1},
		"nothing":        {0, 0},
	} {
		b := newBench(store.LayoutTree)
		card := b.card("3b", "cn0_card", pgpu(3), nil, false)
		if err := b.put(t.Context(), card); err != nil {
			t.Fatal(err)
		}
		b.Doubt(t.Context(), with(card, disabled))
		b.Doubt(t.Context(), with(card, enabled))
		there := b.peer.providers[card.Deployable.Provider]
		there.inventories["PGPU"] = amount{Total: 3, MaxUnit: 3, Reserved: tt.reserved}
		if err := b.put(t.Context(), with(card, enabled)); err != nil || there.inventories["PGPU"].Reserved != tt.want {
			t.Errorf("%s: %d reserved, %v", name, there.inventories["PGPU"].Reserved, err)
		}
	}
}

func TestAWriteIsRepeatedAfterConflicts(t *testing.T) {
	t.Parallel()
	for conflicts, works := range map[int]bool{0: true, 1: true, 4: true, 5: false} {
		b := newBench(store.LayoutTree)
		b.peer.conflicts = conflicts
		card := b.card("3b", "cn0_card", pgpu(2, "CUSTOM_A"), nil, false)
		made, err := b.Put(t.Context(), card)
		if (err == nil) != works || !made {
			t.Errorf("%d conflicts: made %t, %v", conflicts, made, err)
		}
		if err := b.Remove(t.Context(), card); err != nil {
			t.Errorf("%d conflicts: removed: %v", conflicts, err)
		}
		b.checkEmpty(t)
	}
}

func TestAnExistingProviderIsAdoptedIfItIsCyborgs(t *testing.T) {
	t.Parallel()
	for _, existing := range []provider{
		{Name: "cn0_card", Parent: "host", Generation: 3, usages: map[string]int{"PGPU": 1}},
		{Name: "cn0_card", Parent: "host"},
		{Name: "cn0_card", Parent: "host", Generation: 2},
		{Name: "cn0_card", Parent: "other"},
		{Name: "other", Parent: "host"},
	} {
		b := newBench(store.LayoutTree)
		card := b.card("3b", "cn0_card", pgpu(2), nil, false)
		existing.UUID = card.Deployable.Provider
		b.peer.providers[existing.UUID] = &existing
		untouched := existing.Generation == 0
		made, err := b.Put(t.Context(), card)
		if ours := existing.Name == "cn0_card" && existing.Parent == "host" && existing.usages == nil; made != (ours && untouched) || (err == nil) != ours {
			t.Errorf("%+v: made %t, %v", existing, made, err)
		}
	}
}

// The response to the creation of a provider is lost. The provider may be new or older.
func TestALostCreationIsVerified(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]*provider{"new": nil, "older": {Name: "cn0_card", Parent: "host", Generation: 2}} {
		b := newBench(store.LayoutTree)
		b.peer.lost = 1
		card := b.card("3b", "cn0_card", pgpu(2), nil, false)
		if older != nil {
			older.UUID = card.Deployable.Provider
			b.peer.providers[older.UUID] = older
		}
		if made, err := b.Put(t.Context(), card); err == nil || made != (older == nil) {
			t.Errorf("%s: made %t, %v", name, made, err)
		}
	}
}

// A process ends after each request of an addition. The next one removes what it has created.
func TestWhatAnEarlierProcessHasMadeIsRemoved(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{store.LayoutTree, store.LayoutNested, store.LayoutFlat} {
		for untold := 0; ; untold++ {
			b := newBench(mode)
			if b.peer.untold = untold; untold == 0 {
				b.peer.lost = 1
			}
			card := b.card("3b", "cn0_card", pgpu(2, "CUSTOM_A", driver.TraitProgrammable), map[string]int{memory: 4096}, mode == store.LayoutNested)
			_, err := b.Put(t.Context(), card)
			if errs := b.mirror(mode).Settle(t.Context(), "cn0", nil); len(errs) > 0 {
				t.Errorf("%s, answer %d lost: %v", mode, untold, errs)
			}
			b.checkEmpty(t)
			if err == nil && untold > 0 {
				break
			}
		}
	}
}

// On a flat host an existing inventory is adopted only if it equals the expected inventory.
func TestAnInventoryOfAFlatHostIsAdopted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		class  string
		there  amount
		adopts bool
	}{
		"the same total":    {"PGPU", amount{Total: 3, MaxUnit: 3}, true},
		"another total":     {"PGPU", amount{Total: 2, MaxUnit: 2}, false},
		"another max_unit":  {"PGPU", amount{Total: 3, MaxUnit: 1}, false},
		"vGPUs are Nova's":  {"VGPU", amount{Total: 3, MaxUnit: 3}, false},
		"an instance's":     {"CUSTOM_USED", amount{Total: 3, MaxUnit: 3}, false},
		"nothing was there": {"PGPU", amount{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(store.LayoutFlat)
			host := b.peer.providers["host"]
			if tt.there.Total > 0 {
				host.inventories[tt.class] = tt.there
			}
			first := b.card("3b", "cn0_a", driver.Deployable{Class: tt.class, NumAccelerators: 1}, nil, false)
			second := b.card("5e", "cn0_b", driver.Deployable{Class: tt.class, NumAccelerators: 2}, nil, false)
			_, err := b.Put(t.Context(), first, second)
			if taken := (*layout.TakenError)(nil); (err == nil) != tt.adopts || errors.As(err, &taken) == tt.adopts {
				t.Fatal(err)
			}
			if !tt.adopts {
				if got := host.inventories[tt.class]; got != tt.there {
					t.Errorf("the foreign inventory is now %+v", got)
				}
				return
			}
			if got, want := host.inventories[tt.class], (amount{Total: 3, MaxUnit: 3}); got != want {
				t.Errorf("inventory %+v, want %+v", got, want)
			}
			for _, p := range []layout.Part{first, second} {
				if err := b.remove(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			b.checkEmpty(t)
		})
	}
}

// Placement has lost the provider of a region, and possibly of the device above it.
func TestADeviceWhoseRegionIsLostKeepsNoTraitOfBefore(t *testing.T) {
	t.Parallel()
	const board = "cn0_FPGA_0000:3b:00.0"
	for name, lost := range map[string][]string{"the region": {"cn0_r1"}, "both": {"cn0_r1", board}} {
		b := newBench(store.LayoutNested)
		region := b.region("cn0_r1", "CUSTOM_OLD", driver.TraitProgrammable)
		if err := b.put(t.Context(), region); err != nil {
			t.Fatal(err)
		}
		var tree []layout.Provider
		for uuid, p := range b.peer.providers {
			if slices.Contains(lost, p.Name) {
				delete(b.peer.providers, uuid)
			} else {
				tree = append(tree, layout.Provider{UUID: uuid})
			}
		}
		if _, err := b.Forget(t.Context(), "cn0", "host", tree); err != nil {
			t.Fatal(err)
		}
		changed := with(region, func(p *layout.Part) {
			p.Spec.Traits, p.Device.Resources = []string{"CUSTOM_NEW", driver.TraitProgrammable}, nil
		})
		if _, err := b.Put(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		device := b.peer.providers[driver.ProviderUUID(board)]
		if !slices.Equal(device.traits, []string{"CUSTOM_NEW", "OWNER_CYBORG"}) || len(device.inventories) > 0 {
			t.Errorf("%s: the device has traits %v and inventories %v", name, device.traits, device.inventories)
		}
		if err := b.Remove(t.Context(), changed); err != nil {
			t.Error(err)
		}
		if name == "both" {
			b.peer.names = newPeer().names // of what was lost the names remain
		}
		b.checkEmpty(t)
	}
}
