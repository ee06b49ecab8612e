package spawn_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// rankOf is the decision of the step that chose the host.
func rankOf(t *testing.T, result *spawn.Result) string {
	t.Helper()
	for _, step := range result.Trace {
		if step.Step == spawn.StepSelect {
			return step.Decision
		}
	}
	t.Fatal("no host was selected")
	return ""
}

// A vGPU goes to the card that is in part used already, though Placement lists
// the other first.
func TestFewestFragmentsFillsUsedCards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{config: spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFragments}}})
	reversed := request("vgpu")
	reversed.Order = func(list []spawn.Candidate) []spawn.Candidate {
		for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
			list[i], list[j] = list[j], list[i]
		}
		return list
	}
	first, err := w.flow.Run(t.Context(), reversed)
	if err != nil {
		t.Fatal(err)
	}
	w.checkPromise(t, first, nil)
	req := request("vgpu")
	req.Instance = secondInstance
	second, err := w.flow.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	w.checkPromise(t, second, nil)
	if first.ARQs[0].DeviceRPUUID != second.ARQs[0].DeviceRPUUID {
		t.Errorf("two vGPUs on %s and %s, want them on one card", first.Host, second.Host)
	}
	if got := rankOf(t, second); got != "host "+second.Host+": partly used devices filled: 0, unused devices fragmented: 0" {
		t.Errorf("decision %q", got)
	}
}

func TestOrderByReadsTheProviderSummaries(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.Hosts[1].Sysfs.Devices[1].Product = "13f2"
	w := newWorld(t, worldOpts{model: &model})
	nvidia := func(c matching.Candidate) (float64, string) {
		for _, provider := range c.Mappings["device_profile_0"] {
			for _, trait := range c.Providers[provider].Traits {
				if trait == "CUSTOM_NVIDIA_13F2" {
					return 1, "an M60"
				}
			}
		}
		return 0, "no M60"
	}
	req := request("gpu")
	req.Order = spawn.OrderBy(nvidia, matching.NUMAAffinity())
	result, err := w.flow.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	w.checkPromise(t, result, nil)
	p, err := w.cloud.Placement.ResourceProvider(result.ARQs[0].DeviceRPUUID)
	if err != nil || !strings.Contains(strings.Join(p.Traits, " "), "CUSTOM_NVIDIA_13F2") {
		t.Errorf("got traits %v, %v", p.Traits, err)
	}
	if got := rankOf(t, result); !strings.HasSuffix(got, ": an M60; no NUMA node is known") {
		t.Errorf("decision %q", got)
	}
}

func TestWeighersOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{config: spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFunction, spawn.WeigherFragments, spawn.WeigherNUMA}}})
	plain := spawn.Request{Instance: instance, Flavor: requestspec.Flavor{Name: "plain", VCPUs: 1}}
	result, err := w.flow.Run(t.Context(), plain)
	if err != nil || !strings.Contains(rankOf(t, result), "no programming is needed; partly used devices filled: 0") {
		t.Errorf("a flavor without a profile: %v", err)
	}
	ordered := plain
	ordered.Instance = secondInstance
	ordered.Order = spawn.OrderBy(func(matching.Candidate) (float64, string) { return 0, "the order of the request" })
	if result, err = w.flow.Run(t.Context(), ordered); err != nil || !strings.HasSuffix(rankOf(t, result), ": the order of the request") {
		t.Errorf("a request with an order: %v", err)
	}
	_, err = spawn.New(w.cyborg, nil, spawn.WithConfig(spawn.Config{Weighers: []spawn.Weigher{"luck"}}))
	if !errors.Is(err, spawn.ErrConfig) || !strings.Contains(err.Error(), `unknown weigher "luck"; known are fragments, function, numa`) {
		t.Errorf("unknown weigher: %v", err)
	}
}

func TestWeighersAndRockyFlavorsAreJSON(t *testing.T) {
	t.Parallel()
	want := spawn.Config{
		Weighers:     []spawn.Weigher{spawn.WeigherNUMA},
		RockyFlavors: spawn.RockyFlavors{Convert: true, Create: true, ShippedClasses: true},
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got spawn.Config
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(configured(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", data, diff)
	}
	for _, bad := range []string{`{"rocky_flavors": {"converted": true}}`, `{"rocky_flavors": true}`, `{"weighers": "numa"}`} {
		if err := json.Unmarshal([]byte(bad), &got); !errors.Is(err, spawn.ErrConfig) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
