package spawn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// wantKinds compares the kinds of leftovers.
func wantKinds(t *testing.T, got []spawn.Leftover, want ...spawn.LeftoverKind) {
	t.Helper()
	kinds := make([]spawn.LeftoverKind, len(got))
	for i, l := range got {
		kinds[i] = l.Kind
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("leftovers (-want +got):\n%s", diff)
	}
}

// The next unwinding destroys a guest that could not be destroyed. Later ones do not try again.
func TestTheDestructionOfAGuestIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		destroyed := 0
		guests := failsToStart(errHook)
		guests.destroy = func(ctx context.Context, _ sim.Guest) error {
			if destroyed++; destroyed == 1 {
				<-ctx.Done()
				return errHook
			}
			return nil
		}
		a, err := w.flow.On(guests).Begin(t.Context(), request("gpu"))
		if err != nil {
			t.Fatal(err)
		}
		err = walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose, a.StartGuest)
		if !errors.Is(err, errHook) {
			t.Fatal(err)
		}
		began := time.Now()
		_, leftovers := a.Unwind(t.Context())
		wantKinds(t, leftovers, spawn.LeftoverGuest, spawn.LeftoverARQ, spawn.LeftoverAllocation)
		if took := time.Since(began); took != 40*time.Second {
			t.Errorf("the hook had %s, want a third of Config.UnwindTimeout", took)
		}
		for _, want := range []string{"3 undone, 0 not cleaned up", "0 undone, 0 not cleaned up"} {
			if _, leftovers := a.Unwind(t.Context()); len(leftovers) > 0 {
				t.Errorf("leftovers: %v", leftovers)
			}
			trace := a.Result().Trace
			if got := trace[len(trace)-1].Decision; got != want {
				t.Errorf("decision %q, want %q", got, want)
			}
		}
		if destroyed != 2 {
			t.Errorf("destroyed %d times, want twice", destroyed)
		}
		w.cloud.CheckNoLeaks(t)
	})
}

// After one request without a response there is time for another.
func TestASilentDeletionIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t,
			fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 403},
			fault.Rule{Operation: fault.ARQDelete, Action: fault.Delay, Delay: 10 * time.Hour},
		)
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("got error %v, want one without leftovers", err)
		}
		w.checkPromise(t, result, err)
	})
}

// A refused token may be renewed within LateWindow. Then the unwinding gives up.
func TestTheUnwindingWithARefusedToken(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]error{4: nil, -1: spawn.ErrLeftover} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			a := w.begin(t, instance)
			w.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 401, Times: times})
			began := time.Now()
			_, leftovers := a.Unwind(t.Context())
			if len(leftovers) > 0 != (want != nil) {
				t.Errorf("401 %d times: leftovers %v", times, leftovers)
			}
			if took := time.Since(began); want != nil && (took < spawn.LateWindow || took > spawn.LateWindow+time.Second) {
				t.Errorf("gave up after %s, want %s", took, spawn.LateWindow)
			}
		})
	}
}

// If an unwinding could not search the ARQs of a lost create, the next one does, and names the newest ARQs that may
// belong to it.
func TestTheSearchForALostCreateIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		for range 20 {
			w.createARQ(t, "gpu")
		}
		a := w.beforeClaim(t, "gpu")
		if err := a.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.fail(t,
			fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After},
			fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403, Times: -1},
		)
		if err := a.CreateARQs(t.Context()); !errors.Is(err, cyborgclient.ErrReplyLost) {
			t.Fatal(err)
		}
		_, leftovers := a.Unwind(t.Context())
		if len(leftovers) != 1 || !errors.Is(leftovers[0].Err, cyborgclient.ErrForbidden) {
			t.Fatalf("leftovers: %v, want the create and why the ARQs could not be listed", leftovers)
		}
		w.cloud.Faults().Clear()
		_, leftovers = a.Unwind(t.Context())
		var arqs []string
		for _, l := range leftovers {
			if l.Kind == spawn.LeftoverARQ {
				arqs = append(arqs, l.ID)
			}
		}
		if len(arqs) != 16 || len(leftovers) != 17 || !strings.Contains(leftovers[16].String(), "the reply was lost") {
			t.Errorf("leftovers: %v, want 16 ARQs and the create", leftovers)
		}
		w.cloud.ForgetRequests()
		a.Unwind(t.Context())
		if w.lists() > 0 {
			t.Error("looked again")
		}
	})
}

// TestTheUnwindingOfAClaim unwinds claims that another client may have changed.
func TestTheUnwindingOfAClaim(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		rules  []fault.Rule // of the claim
		change func(t *testing.T, w *world)
		undone []string
		left   string // why
		took   time.Duration
	}{
		{"released by another client", nil, func(t *testing.T, w *world) {
			if err := w.cloud.Placement.Release(instance); err != nil {
				t.Fatal(err)
			}
		}, nil, "", 0},
		{"came true late", []fault.Rule{{Operation: fault.AllocationsPut, Action: fault.Late, Delay: 5 * time.Second}}, nil, []string{"allocation " + instance}, "", 5 * time.Second},
		{"did not come true", []fault.Rule{{Operation: fault.AllocationsPut, Action: fault.Drop}}, nil, nil, "the reply was lost", spawn.LateWindow},
		{"Placement refuses to tell", []fault.Rule{{Operation: fault.AllocationsPut, Action: fault.Drop}}, func(t *testing.T, w *world) {
			w.fail(t, fault.Rule{Operation: fault.AllocationsGet, Action: fault.Status, Status: 500, Times: -1})
		}, nil, "500", 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOpts{})
				a := w.beforeClaim(t, "gpu")
				w.fail(t, tt.rules...)
				if err := a.Claim(t.Context()); (err != nil) != (len(tt.rules) > 0) {
					t.Fatal(err)
				}
				if tt.change != nil {
					tt.change(t, w)
				}
				began := time.Now()
				undone, leftovers := a.Unwind(t.Context())
				if diff := cmp.Diff(tt.undone, undone, emptyIsNil()); diff != "" {
					t.Errorf("undone (-want +got):\n%s", diff)
				}
				switch {
				case len(leftovers) > 0 != (tt.left != ""):
					t.Errorf("leftovers: %v", leftovers)
				case tt.left != "" && (!strings.Contains(leftovers[0].String(), tt.left) || leftovers[0].Certain):
					t.Errorf("leftovers: %v, want %q", leftovers, tt.left)
				}
				if took := time.Since(began); took < tt.took || took > tt.took+10*time.Second {
					t.Errorf("took %s, want %s", took, tt.took)
				}
			})
		})
	}
}

// A lost claim must have been refused if another client has changed the allocation of the running instance. That
// allocation is not changed.
func TestALostClaimOfARunningInstanceLeavesTheChangesOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		host := w.cloud.ProviderUUID("cn0")
		hold := func(used int) []placementsim.Allocation {
			held := []placementsim.Allocation{{Consumer: instance, Provider: host, Class: "VCPU", Used: used}}
			if err := w.cloud.Placement.Claim(placementsim.Claim{Consumer: instance, Project: "p", User: "u", Type: "INSTANCE", Allocations: held}); err != nil {
				t.Fatal(err)
			}
			return held
		}
		hold(1)
		req := request("gpu")
		req.Flavor.VCPUs = 0
		a, err := w.flow.BeginAdding(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if err := walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select); err != nil {
			t.Fatal(err)
		}
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop})
		if err := a.Claim(t.Context()); err == nil {
			t.Fatal("no error")
		}
		theirs := hold(2)
		if undone, leftovers := a.Unwind(t.Context()); len(undone)+len(leftovers) > 0 {
			t.Errorf("undone %v, leftovers %v", undone, leftovers)
		}
		if diff := cmp.Diff(theirs, w.cloud.Placement.Allocations()); diff != "" {
			t.Errorf("allocations (-want +got):\n%s", diff)
		}
	})
}

// The trace has the requests of the flavor, its profile and the ports. A port without a device profile requests
// nothing.
func TestTheTraceHasTheRequest(t *testing.T) {
	t.Parallel()
	model := portModel()
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "picky", Groups: []map[string]string{
		{"resources:PGPU": "1", "trait:CUSTOM_A": "required", "trait:CUSTOM_C": "required", "trait:CUSTOM_B": "forbidden"},
	}})
	w := newWorld(t, worldOpts{model: model})
	plain := spawn.Port{Port: requestspec.Port{UUID: port2}}
	tests := []struct {
		profile string
		ports   []spawn.Port
		want    []string
	}{
		{"picky", nil, []string{
			"picky: 1 group",
			"flavor DISK_GB:20+MEMORY_MB:2048+VCPU:2, device_profile_0 PGPU:1 with CUSTOM_A+CUSTOM_C without CUSTOM_B",
		}},
		{"fake", []spawn.Port{plain, acceleratedPort(port1, "nic", "52:54:00:1e:59:c3")}, []string{
			"fake: 1 group, 1 profile of ports",
			"flavor DISK_GB:20+MEMORY_MB:2048+VCPU:2, device_profile_0" + port1 + " CUSTOM_NIC:1 with CUSTOM_NIC_X710, device_profile_0 FPGA:1 with CUSTOM_FAKE_DEVICE",
		}},
	}
	for _, tt := range tests {
		req := request(tt.profile)
		req.Ports = tt.ports
		a, err := w.flow.Begin(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if err := walk(t.Context(), a.ReadProfile, a.BuildRequest); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, step := range a.Result().Trace {
			got = append(got, step.Decision)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.profile, diff)
		}
		a.Unwind(t.Context())
	}
	a, err := w.flow.Begin(t.Context(), spawn.Request{Instance: instance, Flavor: requestspec.Flavor{Name: "bad", MemoryMB: -1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := walk(t.Context(), a.ReadProfile, a.BuildRequest); !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("got error %v, want ErrRequest", err)
	}
	a.Unwind(t.Context())
}

// The devices of a guest that could not be destroyed are not assigned to another instance.
func TestAGuestThatStaysKeepsItsDevices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: raceModel(1, 1)})
		guests := &guestFuncs{
			start:   func(_ context.Context, g sim.Guest) error { return errors.Join(errHook, w.cloud.DefineGuest(g)) },
			destroy: func(context.Context, sim.Guest) error { return errors.New("libvirt does not answer") },
		}
		if _, err := w.flow.On(guests).Run(t.Context(), request("gpu")); !errors.Is(err, spawn.ErrLeftover) {
			t.Fatalf("got %v, want ErrLeftover", err)
		}
		next := request("gpu")
		next.Instance = secondInstance
		if result, err := w.flow.Run(t.Context(), next); err == nil {
			t.Errorf("another instance got %v", result.Devices)
		}
		w.cloud.CheckNoLeaks(t)
		w.cloud.RemoveGuest(instance)
		settled(t, w.flow.Release(t.Context(), instance))
		w.cloud.CheckNoLeaks(t)
	})
}

func TestADeletionGoesOnWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*site) func(context.Context, spawn.Instance) error{
		"delete":         func(s *site) func(context.Context, spawn.Instance) error { return s.ops.Delete },
		"shelve offload": func(s *site) func(context.Context, spawn.Instance) error { return s.ops.ShelveOffload },
	} {
		for _, call := range []string{"begin", "destroy", "undefine"} {
			bubble(t, name+" at "+call, func(t *testing.T) {
				s := newSite(t, worldOpts{})
				i := s.spawn(t, "gpu")
				ctx, cancel := context.WithCancel(t.Context())
				if call == "begin" {
					cancel()
					err := s.unchanged(t, i, func() error { return free(s)(ctx, i) })
					if !errors.Is(err, context.Canceled) || len(s.guests.calls) > 0 {
						t.Errorf("got %v after the calls %v", err, s.guests.calls)
					}
					return
				}
				s.guests.hook = func(n int) {
					if s.guests.calls[n-1] == call {
						cancel()
					}
				}
				settled(t, free(s)(ctx, i))
				if arqs := s.arqs(t, i); ctx.Err() == nil || len(arqs) > 0 {
					t.Errorf("%v; the ARQs are %v", ctx.Err(), arqs)
				}
				s.sound(t)
			})
		}
	}
}

func TestADeletionNamesWhatAGuestThatStaysKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		s.guests.fail["destroy"] = 1 << 30
		for name, free := range map[string]func(context.Context, spawn.Instance) error{"delete": s.ops.Delete, "shelve offload": s.ops.ShelveOffload} {
			before := s.usage(t, i)
			err := free(t.Context(), i)
			var failure *spawn.Error
			if !errors.As(err, &failure) || !errors.Is(err, spawn.ErrLeftover) || !errors.Is(err, errHypervisor) {
				t.Fatalf("%s: got %v", name, err)
			}
			wantKinds(t, failure.Leftovers, spawn.LeftoverGuest, spawn.LeftoverARQ, spawn.LeftoverAllocation)
			if !strings.Contains(err.Error(), i.ARQs[0]) {
				t.Errorf("%s: %v does not name ARQ %s", name, err, i.ARQs[0])
			}
			if diff := cmp.Diff(before, s.usage(t, i)); diff != "" {
				t.Errorf("%s: usage changed (-before +after):\n%s", name, diff)
			}
		}
		s.guests.fail["destroy"] = 0
		settled(t, s.ops.Delete(t.Context(), i))
		s.sound(t)
	})
}
