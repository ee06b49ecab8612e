package fault_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fault"
)

// newSet has the operations "op" and "other", and rules.
func newSet(t fatal, rules ...fault.Rule) *fault.Set {
	t.Helper()
	set := fault.NewSet("op", "other")
	if err := set.Set(rules...); err != nil {
		t.Fatal(err)
	}
	return set
}

// struck are the decisions about subjects that arrive in an order, by subject.
func struck(t fatal, seed uint64, rules []fault.Rule, arrivals []string) map[string]string {
	t.Helper()
	set := newSet(t, rules...)
	set.Seed(seed)
	got := map[string]string{}
	for _, subject := range arrivals {
		rule, hit := set.Decide("op", subject)
		got[subject] += fmt.Sprint(hit, rule.Action, " ")
	}
	return got
}

type fatal interface {
	Helper()
	Fatal(args ...any)
}

func anyRule() *rapid.Generator[fault.Rule] {
	return rapid.Custom(func(t *rapid.T) fault.Rule {
		return fault.Rule{
			Operation: "op", Action: rapid.SampledFrom([]fault.Action{fault.Drop, fault.Status, fault.Malformed}).Draw(t, "action"),
			Subject: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "subject"), Nth: rapid.IntRange(0, 3).Draw(t, "nth"),
			Times: rapid.IntRange(-1, 3).Draw(t, "times"), Probability: rapid.SampledFrom([]float64{0, 0.2, 0.5, 1}).Draw(t, "probability"),
		}
	})
}

func TestFaultsDoNotDependOnTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rules := rapid.SliceOfN(anyRule(), 1, 4).Draw(t, "rules")
		arrivals := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 0, 40).Draw(t, "arrivals")
		want := struck(t, seed, rules, arrivals)
		if diff := cmp.Diff(want, struck(t, seed, rules, rapid.Permutation(arrivals).Draw(t, "shuffled"))); diff != "" {
			t.Errorf("decisions by subject (-first order +second order):\n%s", diff)
		}
		slices.Sort(arrivals)
		if diff := cmp.Diff(want, struck(t, seed, rules, arrivals)); diff != "" {
			t.Errorf("decisions by subject (-mixed +one after the other):\n%s", diff)
		}
	})
}

// Neither another rule nor its position in the list changes the effect of a rule.
func TestChanceIsTheRulesOwn(t *testing.T) {
	t.Parallel()
	a := fault.Rule{Operation: "op", Action: fault.Drop, Subject: "a", Probability: 0.5}
	b := fault.Rule{Operation: "op", Action: fault.Status, Subject: "b", Probability: 0.5}
	var arrivals []string
	for range 100 {
		arrivals = append(arrivals, "a", "b")
	}
	alone := struck(t, 7, []fault.Rule{a}, arrivals)["a"]
	for name, rules := range map[string][]fault.Rule{"before": {b, a}, "behind": {a, b}} {
		if diff := cmp.Diff(alone, struck(t, 7, rules, arrivals)["a"]); diff != "" {
			t.Errorf("with another rule %s it (-alone +beside):\n%s", name, diff)
		}
	}
	if alone == struck(t, 8, []fault.Rule{a}, arrivals)["a"] {
		t.Error("another seed makes the same choice a hundred times")
	}
	if got := struck(t, 7, []fault.Rule{a, a}, arrivals)["a"]; got == alone {
		t.Error("the second of two equal rules adds nothing in a hundred chances")
	}
}

func TestRulesApplyWithTheirProbability(t *testing.T) {
	t.Parallel()
	const decisions, subjects = 10_000, 100
	for _, p := range []float64{0.01, 0.1, 0.5, 0.9, 1} {
		for seed := range uint64(3) {
			set := newSet(t, fault.Rule{Operation: "op", Action: fault.Drop, Probability: p})
			set.Seed(seed)
			for n := range decisions {
				set.Decide("op", fmt.Sprint("subject ", n%subjects))
			}
			deviation := math.Sqrt(decisions * p * (1 - p))
			if hits := set.Rules()[0].Hits; math.Abs(float64(hits)-decisions*p) > 4*deviation {
				t.Errorf("seed %d, probability %g: %d hits of %d", seed, p, hits, decisions)
			}
		}
	}
}

// Nth and Times select the matches that have a chance; without Times all matches from Nth on.
func TestChanceKeepsToTheCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule fault.Rule
		want []int // matches that fail with certainty
	}{
		{fault.Rule{Probability: 1}, []int{1, 2, 3, 4, 5}},
		{fault.Rule{Probability: 1, Nth: 3}, []int{3, 4, 5}},
		{fault.Rule{Probability: 1, Nth: 2, Times: 2}, []int{2, 3}},
		{fault.Rule{Probability: 1, Times: 1}, []int{1}},
	} {
		tt.rule.Operation, tt.rule.Action = "op", fault.Drop
		set := newSet(t, tt.rule)
		var got []int
		for n := range 5 {
			if _, hit := set.Decide("op", "a"); hit {
				got = append(got, n+1)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.rule, diff)
		}
	}
}

func TestImpossibleProbabilitiesAreRefused(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		err := fault.NewSet("op").Set(fault.Rule{Operation: "op", Action: fault.Drop, Probability: p})
		if !errors.Is(err, fault.ErrRule) {
			t.Errorf("%g: %v", p, err)
		}
	}
	for text, want := range map[string]float64{"0.25": 0.25, "1e-300": 1e-300, "0": 0, "-0.0e9": 0, "null": 0} {
		if rules, err := fault.ParseRules([]byte(`[{"operation": "op", "action": "drop", "probability": ` + text + `}]`)); err != nil || rules[0].Probability != want {
			t.Errorf("%s: %v, %v", text, rules, err)
		}
	}
}

// One in four requests is refused, the same ones in every run.
func ExampleSet_Seed() {
	faults := fault.NewSet(fault.AllocationsPut)
	faults.Seed(7)
	err := faults.Set(fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 503, Probability: 0.25})
	fmt.Println(err)
	for range 12 {
		_, hit := faults.Decide(fault.AllocationsPut, "an instance")
		fmt.Print(hit, " ")
	}
	fmt.Println(faults.Rules()[0].Hits)
	// Output:
	// <nil>
	// false false false false true false false true false true false false 3
}
