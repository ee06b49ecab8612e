package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

func TestExplainAgreesWithTheReferenceEnumerator(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := drawWorld(rt)
		q := drawQuery(rt)
		verdicts, err := s.Explain(q)
		if err != nil {
			rt.Fatal(err)
		}
		ref := newReference(s)
		judged := make(map[string]engine.HostVerdict)
		for _, v := range verdicts {
			judged[v.UUID] = v
		}
		for _, anchor := range ref.order {
			v, there := judged[anchor.UUID]
			if there != (anchor.Parent == "") {
				rt.Fatalf("%s: judged %t", anchor.UUID, there)
			}
			if there {
				checkVerdict(rt, ref, q, anchor, v)
			}
		}
	})
}

// checkVerdict compares one host's verdict with all ways to serve the query
// there, and wants words wherever something is refused.
func checkVerdict(t *rapid.T, ref *reference, q engine.CandidateQuery, anchor engine.Inspection, v engine.HostVerdict) {
	found := make(map[string]bool)
	ref.candidatesAt(q, anchor, func(candidate string) { found[candidate] = true })
	if v.Candidate != (len(found) > 0) {
		t.Fatalf("%s: got %+v, reference %v", v.Name, v, found)
	}
	worded := v.Reason.Kind != ""
	for i, g := range v.Groups {
		if !g.Served && len(ref.options(q.Groups[i], anchor)) > 0 {
			t.Fatalf("%s group %q is served by %+v, yet: %+v", v.Name, g.Suffix, ref.options(q.Groups[i], anchor), g)
		}
		if g.Served == (g.Reason.Kind != "") || strings.Contains(g.Reason.Text, "%s") {
			t.Fatalf("%s group %q: %+v", v.Name, g.Suffix, g)
		}
		worded = worded || g.Reason.Kind != ""
	}
	if v.Candidate == worded || strings.Contains(v.Reason.Text, "%") {
		t.Fatalf("%s: %+v", v.Name, v)
	}
}

func TestExplainReportsTheFirstReasonPerGroup(t *testing.T) {
	t.Parallel()
	s := engine.New([]string{"A100", "OTHER"}, collation.Exact, epoch())
	add := func(name, parent, class string, total int, traits ...string) {
		must(t, second(s.CreateProvider(engine.NewProvider{UUID: name, Name: name, Parent: parent}, epoch())))
		must(t, second(s.SetInventories(name, nil, map[string]engine.Inventory{class: {Total: total, MinUnit: 1, MaxUnit: total, StepSize: 1, AllocationRatio: 1}}, engine.InventoryWrite{})))
		must(t, second(s.SetProviderTraits(name, nil, traits, epoch())))
	}
	add("cn7", "", "VCPU", 8, "OTHER")
	add("gpu0", "cn7", "PGPU", 1)
	add("gpu1", "cn7", "PGPU", 1, "A100")
	add("gpu2", "cn7", "PGPU", 1)
	add("gpu3", "cn7", "PGPU", 3, "A100", "OTHER")
	must(t, s.Claim([]engine.Claim{{Consumer: "c", Allocations: []engine.ProviderAmount{
		{Provider: "gpu1", Class: "PGPU", Amount: 1}, {Provider: "gpu3", Class: "PGPU", Amount: 1}, {Provider: "cn7", Class: "VCPU", Amount: 7},
	}}}, engine.Writes{Now: epoch()}))
	pgpu := func(n int64, required, forbidden string) engine.Group {
		g := engine.Group{Suffix: "_G", Resources: []engine.ClassAmount{{Class: "PGPU", Amount: n}}}
		if required != "" {
			g.Traits.Required = [][]string{{required}}
		}
		if forbidden != "" {
			g.Traits.Forbidden = []string{forbidden}
		}
		return g
	}
	other := pgpu(1, "A100", "")
	other.Suffix = "_H"
	third := pgpu(1, "A100", "")
	third.Suffix = "_I"
	unsuffixed := func(n int64) engine.Group {
		return engine.Group{Resources: []engine.ClassAmount{{Class: "VCPU", Amount: n}}}
	}
	tests := []struct {
		name        string
		query       engine.CandidateQuery
		host, group string // of the last group
	}{
		{"trait and capacity", engine.CandidateQuery{Groups: []engine.Group{pgpu(1, "A100", "OTHER")}}, "", "A100 missing on gpu0 and gpu2, gpu1 full (1 of 1 used), gpu3 has the forbidden OTHER"},
		{"units and capacity", engine.CandidateQuery{Groups: []engine.Group{pgpu(3, "A100", "")}}, "", "A100 missing on gpu0 and gpu2, max_unit of PGPU on gpu1 is 1, gpu3 has 2 of PGPU left (1 of 3 used)"},
		{"class", engine.CandidateQuery{Groups: []engine.Group{{Suffix: "_G", Resources: []engine.ClassAmount{{Class: "FPGA", Amount: 1}}}}}, "", "no provider has FPGA"},
		{"the group without suffix", engine.CandidateQuery{Groups: []engine.Group{unsuffixed(2)}}, "", "cn7 has 1 of VCPU left (7 of 8 used)"},
		{"root", engine.CandidateQuery{Groups: []engine.Group{unsuffixed(1)}, Root: engine.TraitRequirement{Required: [][]string{{"A100"}}}}, "A100 missing on cn7", ""},
		{"isolation", engine.CandidateQuery{Groups: []engine.Group{pgpu(1, "A100", ""), other}, Isolate: true}, "group_policy=isolate: the groups cannot have different providers", ""},
		{"sum of some", engine.CandidateQuery{Groups: []engine.Group{pgpu(1, "A100", ""), other, third}}, "3 identical groups request 1 of PGPU each, and there is capacity for 2 of them", ""},
		{"sum", engine.CandidateQuery{Groups: []engine.Group{unsuffixed(1), {Suffix: "_V", Resources: unsuffixed(1).Resources}}}, "the groups together request 2 of VCPU, available: 1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			verdicts, err := s.Explain(tt.query)
			if err != nil || len(verdicts) != 1 || verdicts[0].Candidate {
				t.Fatalf("got %+v, error %v", verdicts, err)
			}
			group := ""
			if groups := verdicts[0].Groups; len(groups) > 0 {
				group = groups[len(groups)-1].Reason.Text
			}
			if diff := cmp.Diff([]string{tt.host, tt.group}, []string{verdicts[0].Reason.Text, group}); diff != "" {
				t.Errorf("host and group (-want +got):\n%s", diff)
			}
		})
	}
}

// An explanation of many groups on many hosts is refused before it takes more memory than a search.
func TestExplanationThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	s := engine.New(testTraits(), collation.Exact, epoch())
	one := map[string]engine.Inventory{"FPGA": {Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}}
	for i := range 100 {
		host := fmt.Sprintf("host%d", i)
		must(t, second(s.CreateProvider(engine.NewProvider{UUID: host, Name: host}, epoch())))
		for k := range 20 {
			name := fmt.Sprintf("%s_device%d", host, k)
			must(t, second(s.CreateProvider(engine.NewProvider{UUID: name, Name: name, Parent: host}, epoch())))
			must(t, second(s.SetInventories(name, nil, one, engine.InventoryWrite{})))
		}
	}
	longest := 0
	for groups, want := range map[int]error{1: nil, 60: nil, 400: engine.ErrTooMany} {
		var q engine.CandidateQuery
		for i := range groups {
			q.Groups = append(q.Groups, engine.Group{Suffix: fmt.Sprint("_", i), Resources: []engine.ClassAmount{{Class: "FPGA", Amount: 2}}})
		}
		verdicts, err := s.Explain(q)
		if !errors.Is(err, want) || (want == nil) != (len(verdicts) == 100) {
			t.Errorf("%d groups: %d hosts and error %v, want %v", groups, len(verdicts), err, want)
		}
		text, err := json.Marshal(verdicts)
		must(t, err)
		longest = max(longest, len(text))
	}
	if longest < 8<<20 || longest > 64<<20 {
		t.Errorf("the longest explanation has %d bytes", longest)
	}
}
