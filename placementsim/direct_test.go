package placementsim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDirectAPIShowsWhatWasBuilt(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	must(t, s.SetAggregates(rp2, agg))
	want := []ResourceProvider{
		{
			UUID: rp1, Name: "cn0", Root: rp1, Generation: 2, Traits: []string{"COMPUTE_ACCELERATORS"}, Aggregates: []string{},
			Inventories: map[string]Inventory{"VCPU": {Total: 8, MinUnit: 1, MaxUnit: 2147483647, StepSize: 1, AllocationRatio: 1}},
		},
		{
			UUID: rp2, Name: "cn0_fpga", Parent: rp1, Root: rp1, Generation: 2, Traits: []string{"CUSTOM_FPGA_INTEL"}, Aggregates: []string{agg},
			Inventories: map[string]Inventory{"FPGA": {Total: 2, MinUnit: 1, MaxUnit: 2147483647, StepSize: 1, AllocationRatio: 1}},
		},
	}
	if diff := cmp.Diff(want, s.ResourceProviders()); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	must(t, s.Claim(Claim{Consumer: con, Project: "p", User: "u", Allocations: []Allocation{{Provider: rp2, Class: "FPGA", Used: 1}}}))
	if diff := cmp.Diff([]Allocation{{con, rp2, "FPGA", 1}}, s.Allocations()); diff != "" {
		t.Errorf("allocations (-want +got):\n%s", diff)
	}
}

func TestTreesAreReadInParts(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	ids := make(map[string]string) // by name
	create := func(name, parent string) {
		ids[name] = addProvider(t, s, ResourceProvider{Name: name, Parent: ids[parent], Inventories: map[string]Inventory{"PGPU": {Total: 2}}}).UUID
	}
	for n := range 5 {
		create(fmt.Sprint("cn", n), "")
	}
	create("cn3_card", "cn3")
	create("cn1_card", "cn1")
	must(t, s.Claim(Claim{Consumer: con, Allocations: []Allocation{{Provider: ids["cn1_card"], Class: "PGPU", Used: 2}}}))
	must(t, s.DeleteProvider(ids["cn2"]))
	for _, tt := range []struct {
		text        string
		skip, limit int
		want        string
		matching    int
	}{
		{"", 0, 9, "cn0; cn1 cn1_card(2); cn3 cn3_card; cn4", 4},
		{"", 1, 2, "cn1 cn1_card(2); cn3 cn3_card", 4},
		{"", 4, 2, "", 4},
		{"", 0, 0, "", 4},
		{"_card", 0, 9, "cn1 cn1_card(2); cn3 cn3_card", 2},
		{"_card", 1, 9, "cn3 cn3_card", 2},
		{ids["cn4"], 0, 9, "cn4", 1},
		{"cn2", 0, 9, "", 0},
	} {
		trees, matching := s.Trees(tt.text, tt.skip, tt.limit)
		var got []string
		for _, tree := range trees {
			var names []string
			for _, p := range tree {
				if name := p.Name; p.Used["PGPU"] > 0 {
					names = append(names, fmt.Sprintf("%s(%d)", name, p.Used["PGPU"]))
				} else {
					names = append(names, name)
				}
				if whole, err := s.ResourceProvider(p.UUID); err != nil || !cmp.Equal(whole, p.ResourceProvider) {
					t.Errorf("provider %s: %+v, %v", p.Name, p, err)
				}
			}
			got = append(got, strings.Join(names, " "))
		}
		if text := strings.Join(got, "; "); text != tt.want || matching != tt.matching {
			t.Errorf("%+v: %s of %d", tt, text, matching)
		}
		all, _ := s.Trees(tt.text, 0, 9)
		wantTotals, wantUsed := make(map[string]Inventory), make(map[string]int)
		for _, p := range slices.Concat(all...) {
			for class, i := range p.Inventories {
				sum := wantTotals[class]
				wantTotals[class] = Inventory{Total: sum.Total + i.Total, Reserved: sum.Reserved + i.Reserved}
				wantUsed[class] += p.Used[class]
			}
		}
		totals, used := s.Totals(tt.text)
		if diff := cmp.Diff(wantTotals, totals) + cmp.Diff(wantUsed, used); diff != "" {
			t.Errorf("totals of %q (-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestDirectAPIErrorsSuggestARemedy(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	claim := func(used int, rp, class string) error {
		return s.Claim(Claim{Consumer: con, Allocations: []Allocation{{Provider: rp, Class: class, Used: used}}})
	}
	must(t, claim(1, rp2, "FPGA"))
	before := dumpOf(s)
	create := func(n ResourceProvider) error { _, err := s.CreateProvider(n); return err }
	tests := []struct {
		name string
		err  error
		want error
		text string
	}{
		{"duplicate uuid", create(ResourceProvider{UUID: rp1, Name: "x"}), ErrConflict, "already exists"},
		{"bad uuid", create(ResourceProvider{UUID: "x", Name: "x"}), ErrInvalid, `"x"`},
		{"no name", create(ResourceProvider{}), ErrInvalid, "needs a name"},
		{"unknown parent", create(ResourceProvider{Name: "x", Parent: rp3}), ErrInvalid, "parent provider UUID does not exist"},
		{"unknown trait", create(ResourceProvider{Name: "x", Traits: []string{"NOPE"}}), ErrInvalid, "NOPE"},
		{"unknown class", s.SetInventory(rp1, map[string]Inventory{"NOPE": {Total: 1}}), ErrInvalid, "NOPE"},
		{"no total", s.SetInventory(rp1, map[string]Inventory{"VCPU": {}}), ErrInvalid, "total 0"},
		{"all reserved and more", s.SetInventory(rp1, map[string]Inventory{"VCPU": {Total: 1, Reserved: 2}}), ErrInvalid, "greater than total"},
		{"class in use", s.SetInventory(rp2, nil), ErrConflict, "in use"},
		{"unknown provider", s.SetTraits(rp3), ErrNotFound, rp3},
		{"bad aggregate", s.SetAggregates(rp1, "x"), ErrInvalid, `"x"`},
		{"delete a parent", s.DeleteProvider(rp1), ErrConflict, "child"},
		{"delete nothing", s.DeleteProvider(rp3), ErrNotFound, rp3},
		{"claim too much", claim(3, rp2, "FPGA"), ErrConflict, "capacity"},
		{"claim nothing of a class", claim(0, rp2, "FPGA"), ErrInvalid, "0 of FPGA"},
		{"claim nowhere", claim(1, rp3, "FPGA"), ErrNotFound, rp3},
		{"claim for an invalid consumer", s.Claim(Claim{Consumer: "x"}), ErrInvalid, `"x"`},
		{"release nothing", s.Release(con2), ErrNotFound, con2},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.want) || !strings.Contains(tt.err.Error(), tt.text) {
			t.Errorf("%s: got error %v, want %v with %q", tt.name, tt.err, tt.want, tt.text)
		}
	}
	if diff := cmp.Diff(before, dumpOf(s)); diff != "" {
		t.Errorf("the refusals changed something (-before +after):\n%s", diff)
	}
}

func TestChecksShowTheProviderTree(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	must(t, s.Claim(Claim{Consumer: con, Allocations: []Allocation{{Provider: rp2, Class: "FPGA", Used: 1}}}))
	var good, bad record
	s.CheckUsage(&good, rp2, "FPGA", 1)
	s.CheckUsage(&good, rp1, "VCPU", 0)
	s.CheckNoAllocations(&good, con2)
	if good.texts != nil {
		t.Errorf("checks that hold say %q", good.texts)
	}
	s.CheckUsage(&bad, rp2, "FPGA", 0)
	s.CheckUsage(&bad, rp3, "FPGA", 0)
	s.CheckNoAllocations(&bad, con)
	if len(bad.texts) != 3 {
		t.Fatalf("3 checks that do not hold say %q", bad.texts)
	}
	tree := "  cn0 " + rp1 + " VCPU 0/8 COMPUTE_ACCELERATORS\n    cn0_fpga " + rp2 + " FPGA 1/2 CUSTOM_FPGA_INTEL\n"
	for i, part := range []string{"got 1, want 0", "no such provider", "1 of FPGA on " + rp2} {
		if !strings.Contains(bad.texts[i], part) || !strings.Contains(bad.texts[i], tree) {
			t.Errorf("check %d lacks %q or the tree: %s", i, part, bad.texts[i])
		}
	}
}

func TestParallelClaimsNeverOvercommit(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 200 {
				consumer := fmt.Sprintf("%08d-0000-4000-8000-%012d", worker, i%3)
				err := s.Claim(Claim{Consumer: consumer, Allocations: []Allocation{{Provider: rp1, Class: "VCPU", Used: 1 + i%3}}})
				if err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				if used := s.Usage(rp1, "VCPU"); used > 8 {
					t.Errorf("%d of 8 used", used)
				}
				if i%2 == 0 {
					_ = s.Release(consumer) // it may have got nothing
				}
			}
		})
	}
	group.Wait()
	for _, a := range s.Allocations() {
		if err := s.Release(a.Consumer); err != nil {
			t.Error(err)
		}
	}
	s.CheckUsage(t, rp1, "VCPU", 0)
}

func TestStandardNames(t *testing.T) {
	t.Parallel()
	if n := len(StandardTraits()); n != 377 {
		t.Errorf("%d standard traits", n)
	}
	if n := len(StandardResourceClasses()); n != 21 {
		t.Errorf("%d standard resource classes", n)
	}
}
