package simcloud_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// complaints is a test that keeps its errors.
type complaints struct {
	*testing.T
	list []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func TestUnrecognizedInputIsListed(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	u := login(t, cloud, "admin", "admin")
	cloud.CheckNothingUnrecognized(t)
	u.send("GET", "/accelerator/v2/accelerator_requests?instanse=1&limit=2", accelerator, "")
	u.send("GET", "/accelerator/v2/accelerator_requests?instanse=2", accelerator, "")
	u.send("POST", "/accelerator/v2/device_profiles", accelerator, `[{"name": "x", "colour": "red", "groups": [{"resources:PGPU": "1"}]}, {"colour": "blue"}]`)
	u.send("GET", "/image/v2/images?sort=name:asc", "", "")
	want := []simcloud.Unrecognized{
		{Service: "accelerator", Operation: fault.ARQList, What: "query instanse", Count: 2, LastFrom: "Go-http-client/1.1"},
		{Service: "accelerator", Operation: fault.ARQList, What: "query limit", Count: 1, LastFrom: "Go-http-client/1.1"},
		{Service: "accelerator", Operation: fault.DeviceProfileCreate, What: "body [].colour", Count: 1, LastFrom: "Go-http-client/1.1"},
		{Service: "image", Operation: fault.ImageList, What: "query sort", Count: 1, LastFrom: "Go-http-client/1.1"},
	}
	if diff := cmp.Diff(want, cloud.Unrecognized()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var body struct{ Unrecognized []simcloud.Unrecognized }
	u.do("GET", "/_sim/unrecognized", "", nil, 200, &body)
	if diff := cmp.Diff(want, body.Unrecognized); diff != "" {
		t.Errorf("/_sim/unrecognized (-want +got):\n%s", diff)
	}
	requests := cloud.Requests()
	if got := requests[len(requests)-2].Unrecognized; !cmp.Equal(got, []string{"body [0].colour", "body [1].colour"}) {
		t.Errorf("of the one request: %v", got)
	}
	check := &complaints{T: t}
	cloud.CheckNothingUnrecognized(check)
	if len(check.list) != 1 || !strings.Contains(check.list[0], "accelerator.arq.list: query instanse (2 requests, the last from Go-http-client/1.1)") {
		t.Errorf("the check says %q", check.list)
	}
	cloud.ForgetRequests()
	cloud.CheckNothingUnrecognized(t)
}

// Gophercloud, the client of this module and the simulated services send recognized input
// only.
func TestASpawnWorksInAStrictCloud(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{StrictRequests: true})
	flow := spawnerOn(t, cloud).flow
	flavor := requestspec.Flavor{Name: "accel.vgpu", VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{"accel:device_profile": "vgpu"}}
	_, err := flow.Run(t.Context(), spawn.Request{Instance: instance(1), Flavor: flavor})
	must(t, err)
	must(t, flow.Release(t.Context(), instance(1)))
	cloud.CheckNoLeaks(t)
	cloud.CheckNothingUnrecognized(t)
}

func TestAStrictCloudRefusesInEveryDialect(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{StrictRequests: true})
	u := login(t, cloud, "admin", "admin")
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/identity/v3/users?nam=x", "", `{"error":{"code":400,"message":"The simulator is strict`},
		{"GET", "/placement/traits?nam=x", "", `{"errors":[{"status":400,"title":"Bad Request"`},
		{"POST", "/accelerator/v2/accelerator_requests", `{"device_profile_name": "gpu", "x": 1}`, `{"error_message":"{\"faultcode\": \"Client\", \"faultstring\": \"The simulator is strict`},
		{"POST", "/compute/v2.1/os-server-external-events", `{"events": [], "x": 1}`, `{"badRequest":{"code":400,"message":"The simulator is strict`},
		{"GET", "/image/v2/images?sort=x", "", "<title>400 Bad Request</title>"},
	} {
		got := u.send(tt.method, tt.path, "", tt.body)
		if got.status != 400 || !strings.Contains(got.body, tt.want) || !strings.Contains(got.body, "Unrecognized: ") {
			t.Errorf("%s %s: %d %s, want 400 with %s", tt.method, tt.path, got.status, got.body, tt.want)
		}
	}
	if n := len(cloud.Cyborg.ARQs()); n != 0 {
		t.Errorf("a refused request made %d ARQs", n)
	}
}
