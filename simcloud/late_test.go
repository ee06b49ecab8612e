package simcloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestEveryChangeCanBeLate(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{}})
	var rules []fault.Rule
	for _, r := range slices.Concat(cloud.Cyborg.Routes(), cloud.Placement.Routes()) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
			rules = append(rules, fault.Rule{Operation: r.Operation, Action: fault.Late, Delay: time.Minute})
		}
	}
	body, err := json.Marshal(rules)
	must(t, err)
	if status, text := ask(t, cloud, "PUT", "/_sim/faults", string(body)); len(rules) < 20 || status != http.StatusOK {
		t.Errorf("%d rules: %d %s", len(rules), status, text)
	}
}

// A spawn and a deletion, with every change a minute late.
func TestALateSpawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t)
		u := login(t, cloud, "admin", "admin")
		s := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
		u.remove(s)
		used := fmt.Sprintf(`{"allocations": {%q: {"resources": {"PGPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}`, s.provider)
		arqs := func() string {
			states := []fakecyborg.State{}
			for _, a := range cloud.Cyborg.ARQs() {
				states = append(states, a.State)
			}
			return fmt.Sprint(states)
		}
		allocated := func() string { return fmt.Sprint(len(cloud.Placement.Allocations())) }
		last := func() string { return cloud.Cyborg.ARQs()[0].UUID }
		const requests = "/accelerator/v2/accelerator_requests"
		for _, tt := range []struct {
			operation             sim.OperationName
			method, path, version string
			body                  func() string
			state                 func() string
			before, after         string
		}{
			{fault.AllocationsPut, "PUT", "/placement/allocations/" + s.uuid, placement, func() string { return used }, allocated, "0", "1"},
			{fault.ARQCreate, "POST", requests, accelerator, func() string { return `{"device_profile_name": "gpu"}` }, arqs, "[]", "[Initial]"},
			{fault.ARQBind, "PATCH", requests, accelerator, func() string { return bindBody(cloud, last(), s) }, arqs, "[Initial]", "[Bound]"},
			{fault.ARQDelete, "DELETE", requests + "?instance=" + s.uuid, accelerator, nil, arqs, "[Bound]", "[]"},
			{fault.AllocationsDelete, "DELETE", "/placement/allocations/" + s.uuid, placement, nil, allocated, "1", "0"},
		} {
			must(t, cloud.Faults().Set(fault.Rule{Operation: tt.operation, Action: fault.Late, Delay: time.Minute}))
			body := ""
			if tt.body != nil {
				body = tt.body()
			}
			if got, err := u.try(tt.method, tt.path, tt.version, body); err == nil {
				t.Fatalf("%s: answered %d", tt.operation, got.status)
			}
			time.Sleep(time.Minute - 1)
			before := tt.state()
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if diff := cmp.Diff([]string{tt.before, tt.after}, []string{before, tt.state()}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.operation, diff)
			}
		}
	})
}

func bindBody(cloud *simcloud.Cloud, arq string, s spawned) string {
	var patches []string
	for path, value := range map[string]string{"hostname": s.host, "device_rp_uuid": s.provider, "instance_uuid": s.uuid, "project_id": cloud.ProjectID("admin")} {
		patches = append(patches, fmt.Sprintf(`{"op": "add", "path": "/%s", "value": %q}`, path, value))
	}
	return fmt.Sprintf(`{%q: [%s]}`, arq, strings.Join(patches, ","))
}
