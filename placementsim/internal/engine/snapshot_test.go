package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestARestoredStateIsTheSame(t *testing.T) {
	t.Parallel()
	all := steps()
	standard := []string{"T1", SharingTrait}
	rapid.Check(t, func(t *rapid.T) {
		s := New(standard, start())
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			_ = all[rapid.IntRange(0, len(all)-1).Draw(t, "step")](t, s, start().Add(time.Duration(i)*time.Second))
		}
		other := New(standard, start().Add(time.Hour))
		if err := other.Restore(standard, s.Snapshot()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Snapshot(), other.Snapshot()); diff != "" {
			t.Fatalf("snapshots (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(dumpOf(s), dumpOf(other)); diff != "" {
			t.Fatalf("what can be seen (-want +got):\n%s", diff)
		}
		if broken := other.broken(); broken != nil {
			t.Fatal(broken)
		}
		query := CandidateQuery{Groups: []Group{{Resources: []ClassAmount{{rapid.SampledFrom([]string{"VCPU", "CUSTOM_C"}).Draw(t, "class"), 1}}}}}
		want, wantErr := s.Candidates(query)
		got, gotErr := other.Candidates(query)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("candidates: %v, then %v", wantErr, gotErr)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Candidates{})); diff != "" {
			t.Fatalf("candidates (-want +got):\n%s", diff)
		}
	})
}

func TestWhatCannotBeIsNotRestored(t *testing.T) {
	t.Parallel()
	unit := Inventory{Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, AllocationRatio: 1}
	good := func() Snapshot {
		return Snapshot{
			Created: start(), Classes: []ClassRecord{{Name: "CUSTOM_C"}}, Traits: []Trait{{Name: "CUSTOM_T"}}, Roots: []string{"a"},
			Providers: []ProviderRecord{
				{UUID: "a", Name: "a", Traits: []string{"CUSTOM_T"}},
				{UUID: "b", Name: "b", Parent: "a", Inventories: []InventoryRecord{{Class: "CUSTOM_C", Inventory: unit}}},
			},
			Consumers: []ConsumerRecord{{UUID: "c", Allocations: []ProviderAmount{{"b", "CUSTOM_C", 2}}}},
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*Snapshot)
		want  string
	}{
		"nothing spoiled":       {func(*Snapshot) {}, ""},
		"a class twice":         {func(s *Snapshot) { s.Classes = append(s.Classes, ClassRecord{Name: "VCPU"}) }, "VCPU"},
		"a trait twice":         {func(s *Snapshot) { s.Traits = append(s.Traits, Trait{Name: "T1"}) }, "T1"},
		"a trait without name":  {func(s *Snapshot) { s.Traits = append(s.Traits, Trait{}) }, "no name"},
		"a provider twice":      {func(s *Snapshot) { s.Providers[1].UUID = "a" }, `"a"`},
		"a parent that is none": {func(s *Snapshot) { s.Providers[1].Parent = "x" }, "parent x"},
		"a loop":                {func(s *Snapshot) { s.Providers[0].Parent = "b" }, "parent"},
		"a root that is none":   {func(s *Snapshot) { s.Roots[0] = "b" }, "no root"},
		"a root too few":        {func(s *Snapshot) { s.Roots = nil }, "0 roots"},
		"an unknown trait":      {func(s *Snapshot) { s.Providers[0].Traits[0] = "CUSTOM_X" }, "CUSTOM_X"},
		"an unknown class":      {func(s *Snapshot) { s.Providers[1].Inventories[0].Class = "CUSTOM_X" }, "CUSTOM_X"},
		"an inventory twice": {func(s *Snapshot) {
			s.Providers[1].Inventories = slices.Repeat(s.Providers[1].Inventories, 2)
		}, "two inventories"},
		"a consumer twice":         {func(s *Snapshot) { s.Consumers = slices.Repeat(s.Consumers, 2) }, "consumer"},
		"an allocation elsewhere":  {func(s *Snapshot) { s.Consumers[0].Allocations[0].Provider = "a" }, "CUSTOM_C:2 on a"},
		"an allocation of nothing": {func(s *Snapshot) { s.Consumers[0].Allocations[0].Amount = 0 }, "CUSTOM_C:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New([]string{"T1"}, start())
			if _, err := s.CreateProvider(NewProvider{UUID: "old", Name: "old"}, start()); err != nil {
				t.Fatal(err)
			}
			before := s.Snapshot()
			snap := good()
			tt.spoil(&snap)
			err := s.Restore([]string{"T1"}, snap)
			if tt.want == "" {
				if err != nil || len(s.InspectAll()) != 2 {
					t.Errorf("restored %v, %v", s.InspectAll(), err)
				}
				return
			}
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want ErrInvalid with %q", err, tt.want)
			}
			if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
				t.Errorf("refused, yet changed (-before +after):\n%s", diff)
			}
		})
	}
}
