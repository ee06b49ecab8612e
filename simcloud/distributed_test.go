package simcloud_test

import (
	"encoding/json"
	"net/http"
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

// shownARQs are the states and times of the requests that a GET shows.
func shownARQs(u *user, path string) (states []string, date, created time.Time) {
	u.t.Helper()
	got := u.send("GET", "/accelerator/v2/accelerator_requests"+path, accelerator, "")
	var body struct {
		ARQs []struct {
			State   string `json:"state"`
			Created string `json:"created_at"`
		} `json:"arqs"`
	}
	must(u.t, json.Unmarshal([]byte(got.body), &body))
	date, err := http.ParseTime(got.header.Get("Date"))
	must(u.t, err)
	for _, a := range body.ARQs {
		states = append(states, a.State)
		if created, err = time.Parse("2006-01-02T15:04:05.999999", strings.TrimSuffix(a.Created, "+00:00")); err != nil {
			u.t.Fatal(err)
		}
	}
	return states, date, created
}

func TestAReadLagsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{ReadLag: 2 * time.Second, BindDelay: 10 * time.Second}})
		time.Sleep(time.Minute)
		events := 0
		cloud.HandleEvents(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { events++ }))
		u := login(t, cloud, "admin", "admin")
		provider, host := u.claim(instance(1), "PGPU:1", "CUSTOM_GPU_NVIDIA")
		arq := u.createARQs("gpu")[0]
		var got []string
		show := func() {
			states, _, _ := shownARQs(u, "")
			single := u.send("GET", "/accelerator/v2/accelerator_requests/"+arq, accelerator, "")
			for _, state := range append(states, "404") {
				if strings.Contains(single.body, `"`+state+`"`) || single.status == http.StatusNotFound && state == "404" {
					got = append(got, state)
				}
			}
		}
		show()
		time.Sleep(2 * time.Second)
		show()
		u.bind(arq, instance(1), provider, host) // not refused
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if cloud.Cyborg.ARQs()[0].State != fakecyborg.StateBound || events != 1 {
			t.Fatalf("%+v, %d events", cloud.Cyborg.ARQs(), events)
		}
		show()
		time.Sleep(2*time.Second - 1)
		show()
		time.Sleep(time.Nanosecond)
		show()
		if diff := cmp.Diff([]string{"404", "Initial", "BindStarted", "BindStarted", "Bound"}, got); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

func TestTheDateIsOfAnotherClock(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{5 * time.Minute, 0, -5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			u := login(t, simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{ClockSkew: skew}}), "admin", "admin")
			u.createARQs("gpu")
			_, date, created := shownARQs(u, "")
			if got := date.Sub(created); got != skew {
				t.Errorf("the Date is %s after created_at, want %s", got, skew)
			}
		})
	}
}

func TestTokensExpireAtARequest(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	u := login(t, cloud, "admin", "admin")
	want := func(when string, cyborg, placement int) {
		t.Helper()
		got := []int{u.send("GET", "/accelerator/v2/devices", "", "").status, u.send("GET", "/placement/resource_providers", "", "").status}
		if diff := cmp.Diff([]int{cyborg, placement}, got); diff != "" {
			t.Errorf("%s: statuses of Cyborg and Placement (-want +got):\n%s", when, diff)
		}
	}
	expire := func(operation sim.OperationName, action fault.Action) {
		t.Helper()
		must(t, cloud.Faults().Set(fault.Rule{Operation: operation, Action: action}))
	}
	want("before", 200, 200)
	expire(fault.DeviceList, fault.ExpireServiceToken)
	want("the service token expires", 401, 401)
	cloud.Faults().Clear()
	want("the service token has expired", 401, 401)
	u = login(t, cloud, "admin", "admin") // with a new service token of the cloud
	want("renewed", 200, 200)
	expire(fault.ResourceProviderList, fault.ExpireToken)
	want("the user's token expires after Cyborg's answer", 200, 401)
	cloud.Faults().Clear()
	want("the user's token has expired", 401, 401)
}

// Nova's node, and with it the request, has the whole name; upstream's agent listens as
// [DEFAULT] host, which is the short one. Only what needs the agent fails.
func TestAHostHasAShortAndAWholeName(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{true, false} {
		model := simcloud.DefaultModel()
		model.Hosts = model.Hosts[:1]
		model.Hosts[0].Name, model.Hosts[0].Fallback = "cn0.example.org", "cn0"
		model.Cyborg.UpstreamQuirks = quirks
		cloud := simcloud.Run(t, model)
		u := login(t, cloud, "admin", "admin")
		for n, tt := range []struct {
			profile, resources string
			bound              bool
		}{{"gpu", "PGPU:1", true}, {"vgpu", "VGPU:1", !quirks}} {
			provider, host := u.claim(instance(n), tt.resources, "CUSTOM_GPU_NVIDIA")
			arq := u.createARQs(tt.profile)[0]
			s := spawned{uuid: instance(n), provider: provider, host: host}
			answer := u.send("PATCH", "/accelerator/v2/accelerator_requests", accelerator, bindBody(cloud, arq, s))
			if bound := answer.status == http.StatusAccepted; bound != tt.bound || host != "cn0.example.org" {
				t.Errorf("quirks %t: bind of %s on host %s: %d %s", quirks, tt.profile, host, answer.status, answer.body)
			}
		}
	}
}
