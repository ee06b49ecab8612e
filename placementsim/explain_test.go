package placementsim_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/placementsim"
)

func ExampleServer_Explain() {
	server, err := placementsim.New(placementsim.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	host, _ := server.CreateProvider(placementsim.ResourceProvider{Name: "cn7", Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}}})
	gpu := map[string]placementsim.Inventory{"PGPU": {Total: 1}}
	_, _ = server.CreateProvider(placementsim.ResourceProvider{Name: "gpu0", Parent: host.UUID, Inventories: gpu})
	full, _ := server.CreateProvider(placementsim.ResourceProvider{Name: "gpu1", Parent: host.UUID, Inventories: gpu, Traits: []string{"CUSTOM_GPU_A100"}})
	_ = server.Claim(placementsim.Claim{Consumer: "c0000000-0000-4000-8000-000000000000", Project: "p", User: "u",
		Allocations: []placementsim.Allocation{{Provider: full.UUID, Class: "PGPU", Used: 1}}})

	why, err := server.Explain("resources=VCPU:1&resourcesdevice_profile_0=PGPU:1&requireddevice_profile_0=CUSTOM_GPU_A100")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(why)
	// Output:
	// host cn7: group device_profile_0: CUSTOM_GPU_A100 missing on gpu0, gpu1 full (1 of 1 used)
}

func TestExplainAnswersOnTheControlRoute(t *testing.T) {
	t.Parallel()
	server := placementsim.Run(t)
	_, err := server.CreateProvider(placementsim.ResourceProvider{Name: "cn0", UUID: "11111111-1111-4111-8111-111111111111", Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}}})
	must(t, err)
	const head = `{"explanation":{"hosts":[{"uuid":"11111111-1111-4111-8111-111111111111","name":"cn0",`
	for _, tt := range []struct {
		query  string
		status int
		body   string
	}{
		{"resources=VCPU:1&limit=1", 200, head + `"candidate":true,"groups":[{"group":"","served":true}]}]},"schema_version":1}`},
		{"resources=VCPU:9", 200, head + `"candidate":false,"groups":[{"group":"","served":false,` +
			`"reason":{"kind":"capacity","text":"cn0 has 8 of VCPU left (0 of 8 used)"},"providers":[{"uuid":"11111111-1111-4111-8111-111111111111",` +
			`"name":"cn0","reason":{"kind":"capacity","text":"cn0 has 8 of VCPU left (0 of 8 used)"}}]}],` +
			`"words":["host cn0: the group without suffix: cn0 has 8 of VCPU left (0 of 8 used)"]}]},"schema_version":1}`},
		{"resources=NOPE:9", 400, "No such resource class NOPE"},
		{"root_required=COMPUTE_NODE", 400, "at least one resources"},
		{"", 400, "at least one resources"},
	} {
		w := httptest.NewRecorder()
		server.ServeExplain(w, httptest.NewRequest("GET", "/_sim/explain?"+tt.query, nil))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s: got %d %s, want %d %s", tt.query, w.Code, w.Body, tt.status, tt.body)
		}
	}
	if _, err := server.Explain("resources=VCPU"); !errors.Is(err, placementsim.ErrInvalid) {
		t.Errorf("got error %v, want ErrInvalid", err)
	}
}
