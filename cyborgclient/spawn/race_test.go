package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// raceModel has hosts with whole GPUs, each with its own provider, and profiles that request one or two of them.
func raceModel(hosts, gpus int) *simcloud.Model {
	model := simcloud.ScaleModel(hosts, gpus)
	one := map[string]string{"resources:PGPU": "1"}
	model.DeviceProfiles = []simcloud.DeviceProfile{
		{Name: "gpu", Groups: []map[string]string{one}}, {Name: "two", Groups: []map[string]string{one, one}},
	}
	return &model
}

// beforeClaim returns an attempt that has chosen a candidate.
func (w *world) beforeClaim(t *testing.T, profile string) *spawn.Attempt {
	t.Helper()
	a, err := w.flow.Begin(t.Context(), request(profile))
	if err == nil {
		err = walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select)
	}
	settled(t, err)
	return a
}

// rival claims the GPUs of the attempt's candidates on a host, as other spawns do, except the last ones.
func (w *world) rival(t *testing.T, a *spawn.Attempt, root string, leave int) {
	t.Helper()
	var gpus []string
	for _, c := range a.Candidates {
		if gpu := c.Mappings["device_profile_0"][0]; c.Root == root && !slices.Contains(gpus, gpu) {
			gpus = append(gpus, gpu)
		}
	}
	for i, gpu := range gpus[:len(gpus)-leave] {
		consumer := fmt.Sprintf("%s%04d", root[:32], i)
		claim := placementsim.Claim{Consumer: consumer, Project: "p", User: "u", Allocations: []placementsim.Allocation{
			{Consumer: consumer, Provider: gpu, Class: "PGPU", Used: 1},
		}}
		settled(t, w.cloud.Placement.Claim(claim))
	}
}

// puts counts the claims by status.
func (w *world) puts() map[int]int {
	n := map[int]int{}
	for _, r := range w.cloud.Requests() {
		if r.Operation == fault.AllocationsPut {
			n[r.Status]++
		}
	}
	return n
}

// A claim that lost the race for a device is repeated with the next device of the host, and then on the next host.
func TestALostRaceMovesOnToTheNextDevice(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		gpus     int
		profile  string
		left     [2]int // devices that are free on the chosen and the other host
		sameHost bool
		refused  int
		wantErr  error
	}{
		{"the next device", 3, "gpu", [2]int{2, 3}, true, 1, nil},
		{"the last device", 3, "gpu", [2]int{1, 3}, true, 2, nil},
		{"the next host", 3, "gpu", [2]int{0, 3}, false, 3, nil},
		{"the last device of the next host", 3, "gpu", [2]int{0, 1}, false, 5, nil},
		{"nothing", 3, "gpu", [2]int{0, 0}, false, 6, spawn.ErrClaim},
		{"two of three", 4, "two", [2]int{2, 0}, true, 2, nil}, // a refused device is in no further claim
		{"one of three", 4, "two", [2]int{1, 4}, false, 3, nil},
		{"a host of many devices", 60, "gpu", [2]int{0, 60}, false, 16, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{model: raceModel(2, tt.gpus)})
			a := w.beforeClaim(t, tt.profile)
			chosen := a.Chosen.Root
			other := a.Candidates[slices.IndexFunc(a.Candidates, func(c spawn.Candidate) bool { return c.Root != chosen })].Root
			w.rival(t, a, chosen, tt.left[0])
			w.rival(t, a, other, tt.left[1])
			err := a.Claim(t.Context())
			if !errors.Is(err, tt.wantErr) || errors.Is(err, spawn.ErrOwnerConflict) {
				t.Errorf("got error %v, want %v", err, tt.wantErr)
			}
			if n := w.puts(); n[http.StatusConflict] != tt.refused {
				t.Errorf("%d claims were refused, want %d", n[http.StatusConflict], tt.refused)
			}
			if err == nil && (a.Chosen.Root == chosen) != tt.sameHost {
				t.Errorf("on root %s, want the same host: %t", a.Chosen.Root, tt.sameHost)
			}
			const refusal = `placement: PUT allocations: 409 Conflict: .*`
			want := regexp.MustCompile(`^claim refused on cn0 \(3 candidates: ` + refusal + `\), cn1 \(3 candidates\): ` + refusal)
			if err != nil && !want.MatchString(err.Error()) {
				t.Errorf("the error does not name every host once with its refusal: %v", err)
			}
			if _, leftovers := a.Unwind(t.Context()); len(leftovers) > 0 {
				t.Error(leftovers)
			}
		})
	}
}

// As many spawns as devices, all with the same list of candidates: each gets one.
func TestARaceForAllDevices(t *testing.T) {
	t.Parallel()
	for _, hosts := range []int{1, 2} {
		const gpus = 8
		w := newWorld(t, worldOpts{model: raceModel(hosts, gpus/hosts)})
		var listed, done sync.WaitGroup
		listed.Add(gpus)
		for i := range gpus {
			done.Go(func() {
				req := request("gpu")
				req.Instance = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
				req.Order = func(all []spawn.Candidate) []spawn.Candidate {
					listed.Done()
					listed.Wait()
					return all
				}
				if _, err := w.flow.Run(t.Context(), req); err != nil {
					t.Errorf("%d hosts: %v", hosts, err)
				}
			})
		}
		done.Wait()
	}
}

// Placement lets claims that overlap exceed an inventory, as on a database without snapshot isolation. Each device
// still belongs to one instance, since Cyborg binds it once. The other spawns return errors with the reason, and
// nothing leaks.
func TestClaimsThatOverlapGiveEachDeviceToOneInstance(t *testing.T) {
	t.Parallel()
	said := regexp.MustCompile(`Placement has allocated [2-5] PGPU of resource provider \S+, which has 1: claims may have overlapped`)
	for name, tt := range map[string]struct {
		hosts, gpus, spawns int
		async               bool
		want                int // instances with a device
	}{
		"the last device":            {1, 1, 4, false, 1},
		"two hosts":                  {2, 1, 5, false, 2},
		"binds in the background":    {1, 1, 3, true, 1},
		"the same device of several": {2, 2, 4, false, 4}, // the others get the next device
	} {
		bubble(t, name, func(t *testing.T) {
			model := raceModel(tt.hosts, tt.gpus)
			model.Cyborg.AsyncBind = tt.async
			w := newWorld(t, worldOpts{model: model})
			w.fail(t, fault.Rule{Operation: fault.AllocationsWrite, Action: fault.Delay, Delay: time.Second, Times: -1})
			errs, got := make([]error, tt.spawns), 0
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() {
					req := request("gpu")
					req.Instance = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
					var result *spawn.Result
					if result, errs[i] = w.flow.Run(t.Context(), req); errs[i] == nil {
						settled(t, w.cloud.DefineGuest(sim.Guest{UUID: req.Instance, Host: result.Host, Domain: string(result.Domain)}))
					}
				})
			}
			all.Wait()
			for _, err := range errs {
				switch {
				case err == nil:
					got++
				case !errors.Is(err, cyborgclient.ErrNoFreeHandle) || len(leftovers(err)) > 0:
					t.Error(err)
				case !said.MatchString(err.Error()):
					t.Errorf("the error does not say that the claims overlapped: %v", err)
				}
			}
			if got != tt.want {
				t.Errorf("%d instances have a device, want %d", got, tt.want)
			}
			time.Sleep(time.Minute)
			w.cloud.CheckNoLeaks(t)
		})
	}
}

// remove removes a provider and its descendants, as Cyborg does with a broken card and an operator with a host.
func (w *world) remove(t *testing.T, provider string) {
	t.Helper()
	for _, p := range w.cloud.Placement.ResourceProviders() {
		if p.Parent == provider {
			w.remove(t, p.UUID)
		}
	}
	settled(t, w.cloud.Placement.DeleteProvider(provider))
}

// Devices and hosts that were removed after the candidates were listed are skipped.
func TestARemovedDeviceOrHostMovesOnToTheNext(t *testing.T) {
	t.Parallel()
	nova := simcloud.DefaultModel() // the trees are read, because Nova has devices there
	device := func(c spawn.Candidate) string { return c.Mappings["device_profile_0"][0] }
	host := func(c spawn.Candidate) string { return c.Root }
	for name, tt := range map[string]struct {
		model    *simcloud.Model
		selected bool // before the removal
		what     func(spawn.Candidate) string
		all      bool // hosts or devices
		wantHost string
		wantErr  error
	}{
		"the device of many":        {raceModel(2, 2), true, device, false, "cn0", nil},
		"the only device":           {raceModel(2, 1), true, device, false, "cn1", nil},
		"all devices":               {raceModel(2, 2), true, device, true, "", spawn.ErrClaim},
		"the host":                  {raceModel(2, 1), false, host, false, "cn1", nil},
		"the host of Nova's":        {&nova, false, host, false, "cn1", nil},
		"the host that was chosen":  {raceModel(2, 1), true, host, false, "cn1", nil},
		"all hosts":                 {raceModel(2, 1), false, host, true, "", spawn.ErrNoCandidates},
		"all hosts after the first": {raceModel(3, 1), true, host, true, "", spawn.ErrClaim},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{model: tt.model})
			a, err := w.flow.Begin(t.Context(), request("gpu"))
			settled(t, err)
			settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates))
			steps := []func(context.Context) error{a.Select, a.Claim}
			if tt.selected {
				settled(t, a.Select(t.Context()))
				steps = steps[1:]
			}
			removed := map[string]bool{}
			for _, c := range a.Candidates {
				if p := tt.what(c); !removed[p] && (tt.all || len(removed) == 0) {
					removed[p] = true
					w.remove(t, p)
				}
			}
			err = walk(t.Context(), steps...)
			if !errors.Is(err, tt.wantErr) || err == nil && a.Host != tt.wantHost {
				t.Errorf("on host %q with error %v, want host %q and %v", a.Host, err, tt.wantHost, tt.wantErr)
			}
			if err == nil {
				settled(t, walk(t.Context(), a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose))
			}
			if _, leftovers := a.Unwind(t.Context()); len(leftovers) > 0 {
				t.Error(leftovers)
			}
		})
	}
}

// A 404 may also come from an ingress without a backend.
func TestA404OfAnIngressDoesNotPassAHostBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(2, 1)})
	w.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		if strings.Contains(req.URL.Path, "/resource_providers/") {
			return answer(req, http.StatusNotFound, "default backend - 404"), nil
		}
		return next.RoundTrip(req)
	})
	if _, err := w.flow.Run(t.Context(), request("gpu")); err == nil || errors.Is(err, spawn.ErrNoCandidates) {
		t.Errorf("got %v, want the 404", err)
	}
}
