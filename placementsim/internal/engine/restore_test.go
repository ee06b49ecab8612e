package engine

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/sim"
)

func TestARestoredStateIsTheSame(t *testing.T) {
	t.Parallel()
	all := steps()
	standard := []string{"T1", SharingTrait}
	rapid.Check(t, func(t *rapid.T) {
		s := New(standard, collation.Exact, start())
		followed := make(map[[2]string]sim.RecordChange)
		follow := func(changes []sim.RecordChange) {
			for _, c := range changes {
				if followed[[2]string{c.Table, c.Key}] = c; c.After == nil {
					delete(followed, [2]string{c.Table, c.Key})
				}
			}
		}
		follow(s.Rows())
		s.OnCommit(follow)
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			_ = all[rapid.IntRange(0, len(all)-1).Draw(t, "step")](t, s, start().Add(time.Duration(i)*time.Second))
		}
		other := New(standard, collation.Exact, start().Add(time.Hour))
		restore, err := other.Restore(standard, pointers(s.Rows()))
		must(t, err)
		restore()
		if diff := cmp.Diff(s.Rows(), other.Rows()); diff != "" {
			t.Fatalf("rows (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(s.Rows(), rows(slices.Collect(maps.Values(followed))).list(), cmpopts.IgnoreFields(sim.RecordChange{}, "Before", "ID", "Label")); diff != "" {
			t.Fatalf("rows (-of the state +of the commits):\n%s", diff)
		}
		if diff := cmp.Diff(dumpOf(s), dumpOf(other)); diff != "" {
			t.Fatalf("what can be seen (-want +got):\n%s", diff)
		}
		if broken := other.broken(); broken != nil {
			t.Fatal(broken)
		}
		query := CandidateQuery{Groups: []Group{{Resources: []ClassAmount{{rapid.SampledFrom([]string{"VCPU", "CUSTOM_C"}).Draw(t, "class"), 1}}}}}
		want, wantErr := s.Answer(query)
		got, gotErr := other.Answer(query)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("candidates: %v, then %v", wantErr, gotErr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("candidates (-want +got):\n%s", diff)
		}
	})
}

// pointers returns rows as Restore takes them.
func pointers(list []sim.RecordChange) []sim.RecordChange {
	list = slices.Clone(list)
	for i, c := range list {
		row := reflect.New(reflect.TypeOf(c.After))
		row.Elem().Set(reflect.ValueOf(c.After))
		list[i].After = row.Interface()
	}
	return list
}

func TestRowsThatAreNoStateAreNotRestored(t *testing.T) {
	t.Parallel()
	original := New([]string{"T1"}, collation.Exact, start())
	original.EnsureClass("CUSTOM_C", start())
	for _, err := range []error{
		created(original.EnsureTrait("CUSTOM_T", start())),
		created(original.CreateProvider(NewProvider{UUID: "a", Name: "a"}, start())),
		created(original.CreateProvider(NewProvider{UUID: "b", Name: "b", Parent: "a"}, start())),
		created(original.SetProviderTraits("a", nil, []string{"CUSTOM_T"}, start())),
		created(original.SetAggregates("a", nil, []string{"g"}, start())),
		created(original.AddInventory("b", "CUSTOM_C", Inventory{Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, AllocationRatio: 1}, InventoryWrite{Now: start()})),
		original.Claim([]Claim{{Consumer: "c", Allocations: []ProviderAmount{{"b", "CUSTOM_C", 2}}}}, Writes{Now: start()}),
	} {
		must(t, err)
	}
	for name, tt := range map[string]struct {
		spoil func([]sim.RecordChange) []sim.RecordChange
		want  string
	}{
		"nothing spoiled":          {func(list []sim.RecordChange) []sim.RecordChange { return list }, ""},
		"no rows":                  {func([]sim.RecordChange) []sim.RecordChange { return nil }, "placement.sequences placement is missing"},
		"a row twice":              {func(list []sim.RecordChange) []sim.RecordChange { return append(list, pointers(original.Rows())[4]) }, "twice"},
		"another key":              {func(list []sim.RecordChange) []sim.RecordChange { list[0].Key = "x"; return list }, "placement.allocations x: the key"},
		"a standard class":         {spoil(func(r *NameRow) { r.Name = strings.Replace(r.Name, "CUSTOM_C", "VCPU", 1) }), `placement.resource_classes 0000000001: resource class "VCPU" is there twice`},
		"a trait without name":     {spoil(func(r *NameRow) { r.Name = strings.Replace(r.Name, "CUSTOM_T", "", 1) }), "placement.traits 0000000001: trait"},
		"a provider twice":         {spoil(func(r *ProviderRow) { r.UUID = "a" }), `"a"`},
		"an unknown parent":        {spoil(func(r *ProviderRow) { r.Parent = strings.Replace(r.Parent, "a", "x", 1) }), "parent x"},
		"a loop":                   {spoil(func(r *ProviderRow) { r.Parent = map[string]string{"a": "b", "b": "a"}[r.UUID] }), "parent"},
		"no tree":                  {spoil(func(r *ProviderRow) { r.Tree = 0 }), "placement.resource_providers 0000000001: the number 0"},
		"a tree to come":           {spoil(func(r *ProviderRow) { r.Tree = 2 }), "the number 2 is not one of 1 to 1"},
		"one tree for two":         {spoil(func(r *ProviderRow) { r.Parent, r.Tree = "", 1 }), "tree 1 has two roots"},
		"a tree below a root":      {spoil(func(r *ProviderRow) { r.Tree = 1 }), "placement.resource_providers 0000000002: the key"},
		"another number":           {spoil(func(r *ProviderRow) { r.ID = 3 - r.ID }), "the key does not belong"},
		"a lower sequence":         {spoil(func(r *SequencesRow) { r.Providers = 1 }), "placement.resource_providers 0000000002: the number 2"},
		"a sequence below zero":    {spoil(func(r *SequencesRow) { r.Trees = -1 }), "out of range"},
		"an unknown trait":         {spoil(func(r *TraitsRow) { r.Traits = []string{"CUSTOM_X"} }), "CUSTOM_X"},
		"no traits":                {spoil(func(r *TraitsRow) { r.Traits = nil }), "placement.provider_traits 0000000001: the key"},
		"an aggregate twice":       {spoil(func(r *AggregatesRow) { r.Aggregates = []string{"g", "g"} }), "placement.provider_aggregates 0000000001: the key"},
		"an unknown class":         {spoil(func(r *InventoryRow) { r.Class = "CUSTOM_X" }), "CUSTOM_X"},
		"an allocation elsewhere":  {spoil(func(r *AllocationRow) { r.Provider, r.Amount = "a", 2 }), "CUSTOM_C:2 of a"},
		"an allocation of nothing": {spoil(func(r *AllocationRow) { r.Provider, r.Amount = "b", 0 }), "CUSTOM_C:0"},
		"an unknown consumer":      {spoil(func(r *AllocationRow) { r.Consumer = "d" }), "d has CUSTOM_C:2 of b: there is no such consumer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New([]string{"T1"}, collation.Exact, start())
			must(t, created(s.CreateProvider(NewProvider{UUID: "old", Name: "old"}, start())))
			before := s.Rows()
			restore, err := s.Restore([]string{"T1"}, tt.spoil(pointers(original.Rows())))
			if tt.want == "" {
				if err == nil {
					restore()
				}
				if err != nil || len(s.InspectAll()) != 2 {
					t.Errorf("restored %v, %v", s.InspectAll(), err)
				}
				return
			}
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want ErrInvalid with %q", err, tt.want)
			}
			if diff := cmp.Diff(before, s.Rows()); diff != "" {
				t.Errorf("refused, yet changed (-before +after):\n%s", diff)
			}
		})
	}
}

// spoil changes the rows of one type.
func spoil[T any](change func(*T)) func([]sim.RecordChange) []sim.RecordChange {
	return func(list []sim.RecordChange) []sim.RecordChange {
		for _, c := range list {
			if row, ok := c.After.(*T); ok {
				change(row)
			}
		}
		return list
	}
}

// created is the error of a call that returns something as well.
func created[T any](_ T, err any) error {
	e, _ := err.(error)
	return e
}
