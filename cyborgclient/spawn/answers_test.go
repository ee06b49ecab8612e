package spawn_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// limits lists the limit parameters of the requests for candidates, in order.
func (w *world) limits(t *testing.T) []string {
	t.Helper()
	var limits []string
	for _, r := range w.cloud.Requests() {
		if r.Operation == fault.AllocationCandidatesList {
			query, err := url.ParseQuery(r.Query)
			settled(t, err)
			limits = append(limits, query.Get("limit"))
		}
	}
	return limits
}

// The flow requests few candidates first, and more if they cover fewer hosts than it may try.
func TestHowManyCandidatesAreAskedFor(t *testing.T) {
	t.Parallel()
	sameOrder := func(all []spawn.Candidate) []spawn.Candidate { return all }
	tests := []struct {
		name        string
		hosts, gpus int
		profile     string
		config      spawn.Config
		change      func(*spawn.Request)
		want        []string
	}{
		{"many hosts", 8, 8, "gpu", spawn.Config{}, nil, []string{"10"}},
		{"fewer candidates", 1, 4, "gpu", spawn.Config{}, nil, []string{"10"}},
		{"one attempt", 8, 8, "gpu", spawn.Config{MaxAttempts: 1}, nil, []string{"2"}},
		{"five attempts", 8, 8, "gpu", spawn.Config{MaxAttempts: 5}, nil, []string{"18"}},
		{"attempts without end", 8, 8, "gpu", spawn.Config{MaxAttempts: 1 << 62}, nil, []string{"1000"}},
		{"many devices on a host", 3, 60, "gpu", spawn.Config{}, nil, []string{"10"}},
		{"one such host", 1, 60, "gpu", spawn.Config{}, nil, []string{"10", "40", "160"}},
		{"many combinations on two hosts", 2, 20, "two", spawn.Config{}, nil, []string{"20", "80", "320", "1000"}},
		{"the caller's number", 8, 8, "gpu", spawn.Config{}, func(r *spawn.Request) { r.Options.Limit = 7 }, []string{"7"}},
		{"as Nova", 8, 8, "gpu", spawn.Config{}, func(r *spawn.Request) { r.Options.Limit = requestspec.DefaultLimit }, []string{"1000"}},
		{"all", 8, 8, "gpu", spawn.Config{}, func(r *spawn.Request) { r.Options.Limit = -1 }, []string{""}},
		{"an order", 8, 8, "gpu", spawn.Config{}, func(r *spawn.Request) { r.Order = sameOrder }, []string{"1000"}},
		{"weighers", 8, 8, "gpu", spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherNUMA}}, nil, []string{"1000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{model: raceModel(tt.hosts, tt.gpus), config: tt.config, spread: true})
			req := request(tt.profile)
			if tt.change != nil {
				tt.change(&req)
			}
			result, err := w.flow.Run(t.Context(), req)
			settled(t, err)
			if diff := cmp.Diff(tt.want, w.limits(t)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// A running instance needs the candidates of one host only.
func TestARunningInstanceAsksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(2, 60), spread: true})
	_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
	settled(t, err)
	result, err := w.flow.AddDevices(t.Context(), request("gpu"))
	if diff := cmp.Diff([]string{"10", "10"}, w.limits(t)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	w.checkPromise(t, result, err)
}

// All candidates of the first response may be excluded, for either reason and with any limit.
func TestUsableCandidatesBehindUnusableOnes(t *testing.T) {
	t.Parallel()
	vgpu := simcloud.DefaultModel()
	vgpu.DeviceProfiles = []simcloud.DeviceProfile{{Name: "vgpu", Groups: []map[string]string{{"resources:VGPU": "1"}}}}
	novas := simcloud.Host{Name: "a-nova", Nova: &simcloud.Nova{}}
	for bus := range 80 {
		novas.Nova.VGPUs = append(novas.Nova.VGPUs, simcloud.NovaDevice{Address: fmt.Sprintf("0000:%02x:00.0", 0x41+bus)})
	}
	vgpu.Hosts = slices.Insert(vgpu.Hosts, 0, novas)
	pgpu := raceModel(20, 12)
	pgpu.Placement.Seed = 4 // with which the first answers have no usable candidate
	other := simcloud.Host{Name: "z-other"}
	for n := range 2 {
		other.Providers = append(other.Providers, simcloud.Provider{Name: fmt.Sprint("z-other_", n), Inventory: map[string]int{"PGPU": 1}})
	}
	pgpu.Hosts = append(pgpu.Hosts, other)
	ordered := ownRequest("resources1:PGPU", "1", "resources2:PGPU", "1", "group_policy", "isolate")
	ordered.Order = func(all []spawn.Candidate) []spawn.Candidate { return all }
	limited := ownRequest("resources:PGPU", "1")
	limited.Options.Limit = 10
	for name, tt := range map[string]struct {
		model   *simcloud.Model
		request spawn.Request
		want    []string
		err     error
	}{
		"a device profile behind Nova's":         {&vgpu, request("vgpu"), []string{"10", "40", "160"}, nil},
		"a flavor behind Cyborg's":               {pgpu, ownRequest("resources:PGPU", "1"), []string{"10", "40", "160", "640"}, nil},
		"all that are ordered":                   {pgpu, ordered, []string{"1000", "4000"}, nil},
		"as many as the request says, no others": {pgpu, limited, []string{"10"}, spawn.ErrNoCandidates},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{model: tt.model})
			result, err := w.flow.Run(t.Context(), tt.request)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, w.limits(t)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if err != nil && !strings.Contains(err.Error(), " and 7 more") {
				t.Errorf("error %v, want three of 10 providers", err)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// A refused claim does not use up an attempt. If the first response has no other host, a larger one has.
func TestARescheduleAsksForMoreHosts(t *testing.T) {
	t.Parallel()
	model := raceModel(3, 12)
	model.Hosts[2].Sysfs.Devices = model.Hosts[2].Sysfs.Devices[:1] // which few candidates seldom have
	w := newWorld(t, worldOpts{model: model, config: spawn.Config{MaxAttempts: 2}})
	everything := request("gpu")
	everything.Options.Limit = -1
	all, err := w.flow.Begin(t.Context(), everything)
	settled(t, err)
	settled(t, walk(t.Context(), all.ReadProfile, all.BuildRequest, all.FindCandidates))
	all.Unwind(t.Context())
	a := w.beforeClaim(t, "gpu")
	first := a.Chosen.Root
	w.rival(t, all, first, 0)
	settled(t, walk(t.Context(), a.Claim, a.CreateARQs, a.Match))
	second := a.Chosen.Root
	settled(t, a.Reschedule(t.Context()))
	if third := a.Chosen.Root; first == second || second == third || first == third {
		t.Errorf("roots %s, %s, %s; want three", first, second, third)
	}
	settled(t, walk(t.Context(), a.Claim, a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose))
	if diff := cmp.Diff([]string{"", "6", "24"}, w.limits(t)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	w.define(t, a.Result())
	if err := a.Reschedule(t.Context()); !errors.Is(err, spawn.ErrNoAlternate) {
		t.Errorf("a third attempt of two: error %v, want ErrNoAlternate", err)
	}
}

// Other clients claim all devices of the first response before the flow claims one. The next response has more
// devices.
func TestAClaimAsksAgain(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]spawn.Config{"few": {}, "weighed": {Weighers: []spawn.Weigher{spawn.WeigherFragments}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{model: raceModel(5, 2), config: config})
			a := w.beforeClaim(t, "gpu")
			var roots []string
			for _, c := range a.Candidates {
				if !slices.Contains(roots, c.Root) {
					roots = append(roots, c.Root)
				}
			}
			for _, root := range roots[:4] {
				w.rival(t, a, root, 0)
			}
			settled(t, a.Claim(t.Context()))
			if a.Chosen.Root != roots[4] || len(w.limits(t)) != 2 {
				t.Errorf("on root %s after the limits %s, want %s after 2", a.Chosen.Root, w.limits(t), roots[4])
			}
			unwindAll(t, a)
		})
	}
}

// The compute side does not know the options of the request, such as the aggregates of an availability zone. It
// therefore claims only the alternates of the handover.
func TestTheComputeSideAsksForNoCandidates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(3, 2), config: spawn.Config{MaxAttempts: 2}})
	listed := w.beforeClaim(t, "gpu")
	listed.Unwind(t.Context())
	handover, err := parseHandover(w.conduct(t, request("gpu")))
	if err != nil || len(handover.Alternates) != 1 {
		t.Fatalf("%d alternates, %v; want one", len(handover.Alternates), err)
	}
	w.rival(t, listed, handover.Alternates[0].Root, 0)
	w.restart(t)
	a, err := w.flow.Resume(t.Context(), handover, nil)
	settled(t, err)
	before := len(w.limits(t))
	if err := walk(t.Context(), a.Reschedule, a.Claim); !errors.Is(err, spawn.ErrClaim) {
		t.Errorf("got error %v, want ErrClaim", err)
	}
	if asked := len(w.limits(t)) - before; asked > 0 {
		t.Errorf("candidates were asked for %d times", asked)
	}
	unwindAll(t, a)
}

// The error reports that there is no free device.
func TestAClaimWhoseCloudIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(1, 2)})
	a := w.beforeClaim(t, "gpu")
	w.rival(t, a, a.Chosen.Root, 0)
	err := a.Claim(t.Context())
	if !errors.Is(err, spawn.ErrClaim) || !errors.Is(err, spawn.ErrNoCandidates) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got error %v, want ErrClaim and ErrNoCandidates", err)
	}
	a.Unwind(t.Context())
}

// With the default options as many parallel spawns succeed as there are free devices. Each round starts more spawns
// than that.
func TestParallelSpawnsSucceedWhileDevicesAreFree(t *testing.T) {
	t.Parallel()
	tests := []struct{ hosts, gpus, kept, more int }{
		{8, 8, 0, 0}, {8, 8, 51, 0}, {8, 8, 48, 5}, {2, 8, 0, 16}, {1, 16, 0, 0}, {16, 1, 0, 3}, {3, 30, 60, 0}, {24, 2, 0, 0},
	}
	for _, tt := range tests {
		bubble(t, fmt.Sprintf("hosts=%d/gpus=%d/kept=%d/more=%d", tt.hosts, tt.gpus, tt.kept, tt.more), func(t *testing.T) {
			w := newWorld(t, worldOpts{model: raceModel(tt.hosts, tt.gpus), spread: true})
			free := tt.hosts*tt.gpus - tt.kept
			w.together(t, "a", tt.kept, 0)
			w.together(t, "b", free+tt.more, tt.more)
			w.cloud.CheckNoLeaks(t)
		})
	}
}

// together spawns instances in parallel. The given number of them may find no device.
func (w *world) together(t *testing.T, name string, spawns, fail int) {
	t.Helper()
	var failed atomic.Int64
	var group sync.WaitGroup
	for i := range spawns {
		group.Go(func() {
			req := request("gpu")
			req.Instance = fmt.Sprintf("%s0000000-0000-4000-8000-%012d", name, i)
			result, err := w.flow.Run(t.Context(), req)
			switch {
			case err == nil:
				w.define(t, result)
			case !errors.Is(err, spawn.ErrNoCandidates):
				t.Errorf("not for want of devices: %v", err)
			default:
				failed.Add(1)
			}
		})
	}
	group.Wait()
	if got := int(failed.Load()); got != fail {
		t.Errorf("%d of %d spawns failed, want %d", got, spawns, fail)
	}
}

// As many workers as devices spawn and release instances. At any time there is a free device for each worker.
func TestWorkersOfANearlyFullCloud(t *testing.T) {
	t.Parallel()
	tests := []struct{ hosts, gpus, workers int }{{8, 8, 13}, {2, 8, 16}, {8, 2, 16}, {1, 16, 16}}
	for _, tt := range tests {
		bubble(t, fmt.Sprintf("hosts=%d/gpus=%d/workers=%d", tt.hosts, tt.gpus, tt.workers), func(t *testing.T) {
			w := newWorld(t, worldOpts{model: raceModel(tt.hosts, tt.gpus), spread: true})
			w.together(t, "a", tt.hosts*tt.gpus-tt.workers, 0)
			var group sync.WaitGroup
			for worker := range tt.workers {
				group.Go(func() {
					for i := range 12 {
						req := request("gpu")
						req.Instance = fmt.Sprintf("b%07d-0000-4000-8000-%012d", worker, i)
						if _, err := w.flow.Run(t.Context(), req); err != nil {
							t.Error(err)
							return
						}
						if err := w.flow.Release(t.Context(), req.Instance); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			w.cloud.CheckNoLeaks(t)
		})
	}
}

func fewCandidates(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{model: raceModel(8, 8), config: config})
	result, err := w.flow.Run(t.Context(), request("gpu"))
	w.checkPromise(t, result, err)
	return fmt.Sprint("limits ", w.limits(t))
}

func refusedDevice(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{model: raceModel(2, 2), config: config})
	a := w.beforeClaim(t, "gpu")
	defer a.Unwind(t.Context())
	root := a.Chosen.Root
	w.rival(t, a, root, 1)
	if err := a.Claim(t.Context()); err != nil || a.Chosen.Root != root {
		return fmt.Sprintf("on root %s: %v", a.Chosen.Root, err)
	}
	return fmt.Sprintf("the same host, %d claim refused", w.puts()[http.StatusConflict])
}
