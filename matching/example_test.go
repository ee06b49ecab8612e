package matching_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

func ExampleMatches() {
	profile := requestspec.Profile{Name: "pair", Groups: []map[string]string{
		{"resources:PGPU": "2"},
		{"resources:FPGA": "1"},
	}}
	mappings := map[string][]string{"device_profile_0": {"rp-gpus"}, "device_profile_1": {"rp-fpga"}}
	arqs := []matching.Unmatched{
		{UUID: "arq-1", Group: 0, DeviceProfileName: "pair"},
		{UUID: "arq-2", Group: 0, DeviceProfileName: "pair"},
		{UUID: "arq-3", Group: 1, DeviceProfileName: "pair"},
	}
	matches, err := matching.Matches(profile, mappings, arqs)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range matches {
		fmt.Println(m.ARQ, "->", m.DeviceRP)
	}
	_, err = matching.Matches(profile, mappings, arqs[1:])
	fmt.Println(err)
	// Output:
	// arq-1 -> rp-gpus
	// arq-2 -> rp-gpus
	// arq-3 -> rp-fpga
	// matching group device_profile_0: wrong number of accelerator requests: want 2 ARQs, got 1
}

func ExampleProviders() {
	groups := []requestspec.Group{
		{Resources: map[string]int{"VCPU": 2}},
		{RequesterID: "device_profile_0", UseSameProvider: true, Resources: map[string]int{"PGPU": 1}},
	}
	providers, err := matching.Providers(groups, map[string][]string{"": {"compute-1"}, "device_profile_0": {"gpu-1"}})
	fmt.Println(providers, err)
	// Output: map[device_profile_0:gpu-1] <nil>
}

func ExampleWeigh() {
	candidates := []matching.Candidate{{Host: "far"}, {Host: "near"}, {Host: "also-near"}}
	near := func(c matching.Candidate) (float64, string) {
		if c.Host == "far" {
			return 0, "another rack"
		}
		return 1, "the same rack"
	}
	for _, w := range matching.Weigh(candidates, near) {
		fmt.Printf("%s: %s\n", w.Host, w.Reason)
	}
	// Output:
	// near: the same rack
	// also-near: the same rack
	// far: another rack
}

func TestWeighPutsScoresThatAreNoNumberLast(t *testing.T) {
	scores := map[string]float64{"nan": math.NaN(), "low": math.Inf(-1), "high": 1}
	candidates := []matching.Candidate{{Host: "nan"}, {Host: "low"}, {Host: "high"}}
	got := matching.Weigh(candidates, func(c matching.Candidate) (float64, string) { return scores[c.Host], "" })
	if got[0].Host != "high" || got[1].Host != "low" || got[2].Host != "nan" {
		t.Errorf("order %v", got)
	}
	if got := matching.Weigh(candidates, nil); len(got) != 3 || got[0].Host != "nan" || got[0].Scores[0] != 0 {
		t.Errorf("without a weigher: %v", got)
	}
}
