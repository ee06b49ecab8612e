package guests_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

const instance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"

var (
	onFirst  = spawn.Instance{UUID: instance, Host: "cn0"}
	onSecond = spawn.Instance{UUID: instance, Host: "cn1"}
)

const (
	first  = "<domain><name>first</name></domain>"
	second = "<domain><name>second</name></domain>"
)

// hypervisors are the hypervisors of a cloud in this process, and of the same cloud over HTTP.
var hypervisors = map[string]func(*simcloud.Cloud) *guests.Hypervisor{
	"in the process": guests.New,
	"remote": func(cloud *simcloud.Cloud) *guests.Hypervisor {
		return guests.Remote(sim.Control{URL: cloud.URL(), Client: &http.Client{Transport: cloud.Transport()}})
	},
}

// must ends a test whose set-up fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// guest is what a hypervisor says of a guest.
type guest struct {
	Domain  string
	Running bool
}

func TestHypervisor(t *testing.T) {
	t.Parallel()
	for name, of := range hypervisors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t)
			h := of(cloud)
			ctx := t.Context()
			for _, step := range []struct {
				name  string
				call  func() error
				fails bool
				on    map[string]guest // by host
				shown []sim.Guest      // by the cloud
			}{
				{"start a missing guest", func() error { return h.Start(ctx, onFirst) }, true, nil, nil},
				{"shut a missing guest down", func() error { return h.Shutdown(ctx, onFirst) }, true, nil, nil},
				{"destroy a guest on no host", func() error { return h.Destroy(ctx, spawn.Instance{UUID: instance}) }, true, nil, nil},
				{"destroy a missing guest", func() error { return h.Destroy(ctx, onFirst) }, false, nil, nil},
				{"undefine a missing guest", func() error { return h.Undefine(ctx, onFirst) }, false, nil, nil},
				{"define on an unknown host", func() error { return h.Define(ctx, spawn.Instance{UUID: instance, Host: "cn9"}, []byte(first)) }, true, nil, nil},
				{"define no domain", func() error { return h.Define(ctx, onFirst, []byte("<")) }, true, nil, nil},
				{"define", func() error { return h.Define(ctx, onFirst, []byte(first)) }, false,
					map[string]guest{"cn0": {first, false}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: first}}},
				{"start", func() error { return h.Start(ctx, onFirst) }, false,
					map[string]guest{"cn0": {first, true}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: first}}},
				{"start a running guest", func() error { return h.Start(ctx, onFirst) }, true,
					map[string]guest{"cn0": {first, true}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: first}}},
				{"define a running guest", func() error { return h.Define(ctx, onFirst, []byte(second)) }, false,
					map[string]guest{"cn0": {second, true}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: second}}},
				{"define no domain for a guest that has one", func() error { return h.Define(ctx, onFirst, []byte("<")) }, true,
					map[string]guest{"cn0": {second, true}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: second}}},
				{"undefine a running guest", func() error { return h.Undefine(ctx, onFirst) }, true,
					map[string]guest{"cn0": {second, true}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: second}}},
				{"shut down", func() error { return h.Shutdown(ctx, onFirst) }, false,
					map[string]guest{"cn0": {second, false}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: second}}},
				{"define on another host", func() error { return h.Define(ctx, onSecond, []byte(first)) }, false,
					map[string]guest{"cn0": {second, false}, "cn1": {first, false}}, []sim.Guest{{UUID: instance, Host: "cn1", Domain: first}}},
				{"destroy", func() error { return errors.Join(h.Start(ctx, onFirst), h.Destroy(ctx, onFirst)) }, false,
					map[string]guest{"cn0": {second, false}, "cn1": {first, false}}, []sim.Guest{{UUID: instance, Host: "cn1", Domain: first}}},
				{"define again", func() error { return h.Define(ctx, onFirst, []byte(second)) }, false,
					map[string]guest{"cn0": {second, false}, "cn1": {first, false}}, []sim.Guest{{UUID: instance, Host: "cn0", Domain: second}}},
				{"undefine", func() error { return h.Undefine(ctx, onFirst) }, false,
					map[string]guest{"cn1": {first, false}}, []sim.Guest{{UUID: instance, Host: "cn1", Domain: first}}},
				{"undefine the last", func() error { return h.Undefine(ctx, onSecond) }, false, nil, nil},
			} {
				if err := step.call(); (err != nil) != step.fails {
					t.Errorf("%s: error %v", step.name, err)
				}
				on := map[string]guest{}
				for _, i := range []spawn.Instance{onFirst, onSecond} {
					domain, running, err := h.Domain(ctx, i)
					if err == nil {
						on[i.Host] = guest{string(domain), running}
					} else if !errors.Is(err, spawn.ErrNoGuest) {
						t.Errorf("%s: %v", step.name, err)
					}
					if runs := slices.Contains(h.Running(i.Host), instance); runs != running {
						t.Errorf("%s: listed as running on %s: %t", step.name, i.Host, runs)
					}
				}
				if diff := cmp.Diff(on, step.on); diff != "" && len(on)+len(step.on) > 0 {
					t.Errorf("%s (-got +want):\n%s", step.name, diff)
				}
				if diff := cmp.Diff(cloud.Guests(), step.shown); diff != "" && len(cloud.Guests())+len(step.shown) > 0 {
					t.Errorf("%s: the cloud shows (-got +want):\n%s", step.name, diff)
				}
			}
		})
	}
}

// A host that is off does not answer, and its guests are off when it is back.
func TestPowerOff(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	h := guests.New(cloud)
	ctx := t.Context()
	must(t, errors.Join(h.Define(ctx, onFirst, []byte(first)), h.Start(ctx, onFirst)))
	h.PowerOff("cn0")
	if _, _, err := h.Domain(ctx, onFirst); err == nil || errors.Is(err, spawn.ErrNoGuest) {
		t.Errorf("a host that is off answers: %v", err)
	}
	if err := h.Define(ctx, onSecond, []byte(second)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]sim.Guest{{UUID: instance, Host: "cn1", Domain: second}}, cloud.Guests()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.PowerOn("cn0")
	if _, running, err := h.Domain(ctx, onFirst); err != nil || running {
		t.Errorf("running %t, %v", running, err)
	}
	var want []string
	for _, uuid := range []string{instance[:35] + "9", instance, instance[:35] + "5", instance[:35] + "7", instance[:35] + "3", instance[:35] + "8"} {
		i := spawn.Instance{UUID: uuid, Host: "cn0"}
		must(t, errors.Join(h.Define(ctx, i, []byte(first)), h.Start(ctx, i)))
		want = append(want, uuid)
	}
	slices.Sort(want)
	h.PowerOff("cn1")
	if diff := cmp.Diff(want, h.Running("cn0")); diff != "" {
		t.Errorf("on the first host run (-want +got):\n%s", diff)
	}
	if got := h.Running("cn1"); len(got) != 0 {
		t.Errorf("on the second host run %v, none was started", got)
	}
}

// agent is an agent of a cloud.
type agent struct {
	flow       *spawn.Flow
	operations *spawn.Operations
}

func newAgent(t *testing.T, cloud *simcloud.Cloud, h spawn.Hypervisor) agent {
	t.Helper()
	flow, err := spawn.NewFromProvider(cloud.Provider(t), spawn.WithServiceProvider(cloud.ServiceProvider(t)), spawn.WithHypervisor(h))
	must(t, err)
	operations, err := flow.Operations()
	must(t, err)
	return agent{flow, operations}
}

// request asks for the instance with the devices of a profile.
func request(profile string) spawn.Request {
	return spawn.Request{Instance: instance, Flavor: requestspec.Flavor{
		Name: profile, VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}}
}

// spawn spawns the instance with the devices of a profile.
func (a agent) spawn(t *testing.T, profile string) spawn.Instance {
	t.Helper()
	request := request(profile)
	result, err := a.flow.Run(t.Context(), request)
	must(t, err)
	return spawn.InstanceOf(request, result)
}

// The life of a guest with a vGPU: its host reboots, then dies, and comes back when the guest is elsewhere. The mediated device is created by
// Cyborg's agent, or by the hypervisor.
func TestTheLifeOfAGuest(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]simcloud.Model{
		"mediated devices by Cyborg":         {},
		"mediated devices by the hypervisor": {Cyborg: fakecyborg.Config{MdevCreation: fakecyborg.MdevsByNova}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model.Hosts = simcloud.DefaultModel().Hosts
			cloud := simcloud.Run(t, model)
			withMdevs := guests.WithMdevs(cloud)
			h, hypervisor := withMdevs.Hypervisor, spawn.Hypervisor(withMdevs)
			if model.Cyborg.MdevCreation == "" {
				h = guests.New(cloud)
				hypervisor = h
			}
			a := newAgent(t, cloud, hypervisor)
			i := a.spawn(t, "vgpu")
			check := func(what string) {
				t.Helper()
				if !slices.Equal(h.Running(i.Host), []string{instance}) {
					t.Errorf("%s: %v run on %s", what, h.Running(i.Host), i.Host)
				}
				cloud.CheckNoLeaks(t)
			}
			check("spawn")

			must(t, cloud.StopHost(i.Host))
			h.PowerOff(i.Host)
			if err := hypervisor.Start(t.Context(), i); err == nil {
				t.Error("a guest starts on a host that is off")
			}
			h.PowerOn(i.Host)
			if err := hypervisor.Start(t.Context(), i); err == nil {
				t.Error("a guest starts without its mediated device")
			}
			must(t, cloud.StartHost(t.Context(), i.Host))
			must(t, a.operations.ResumeAfterHostReboot(t.Context(), i))
			check("reboot of the host")

			must(t, a.operations.Delete(t.Context(), i))
			if len(h.Running(i.Host)) != 0 || len(cloud.Guests()) != 0 {
				t.Error("the guest remains")
			}
			cloud.CheckNoLeaks(t)
		})
	}
}

// refusing is a hypervisor of a test of its own: no guest starts.
type refusing struct{ *guests.Hypervisor }

// Start implements [spawn.Hypervisor].
func (refusing) Start(context.Context, spawn.Instance) error { return errors.New("out of memory") }

func TestASpawnWhoseGuestDoesNotStartLeavesNothing(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	a := newAgent(t, cloud, refusing{guests.New(cloud)})
	if _, err := a.flow.Run(t.Context(), request("gpu")); err == nil {
		t.Error("no error")
	}
	if len(cloud.Guests()) != 0 {
		t.Error("a guest remains")
	}
	cloud.CheckNoLeaks(t)
}

// A guest that another process has defined runs on its host, and only there.
func TestTheGuestOfAnotherProcess(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	control := sim.Control{URL: cloud.URL(), Client: &http.Client{Transport: cloud.Transport()}}
	ctx := t.Context()
	must(t, guests.Remote(control).Define(ctx, onFirst, []byte(first)))
	h := guests.Remote(control)
	if err := errors.Join(h.Destroy(ctx, onSecond), h.Undefine(ctx, onSecond)); err != nil {
		t.Error(err)
	}
	if domain, running, err := h.Domain(ctx, onFirst); err != nil || !running || string(domain) != first {
		t.Errorf("got %s, running %t, %v", domain, running, err)
	}
	if _, _, err := h.Domain(ctx, onSecond); !errors.Is(err, spawn.ErrNoGuest) {
		t.Errorf("on another host: %v", err)
	}
	if err := errors.Join(h.Destroy(ctx, onFirst), h.Undefine(ctx, onFirst)); err != nil {
		t.Error(err)
	}
	if _, ok, err := control.Guest(ctx, instance); ok || err != nil {
		t.Errorf("the cloud has the guest: %t, %v", ok, err)
	}
	control.URL = "http://127.0.0.1:1/nothing"
	control.Client = nil
	if _, _, err := guests.Remote(control).Domain(ctx, onFirst); err == nil || errors.Is(err, spawn.ErrNoGuest) {
		t.Errorf("a cloud that does not answer: %v", err)
	}
}

// Another process evacuates the instance, and a third one deletes it.
func TestAnotherProcessMovesTheGuest(t *testing.T) {
	t.Parallel()
	for name, of := range hypervisors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t)
			h, other := of(cloud), of(cloud)
			ctx := t.Context()
			must(t, errors.Join(h.Define(ctx, onFirst, []byte(first)), h.Start(ctx, onFirst), other.Define(ctx, onSecond, []byte(second))))
			for _, i := range []spawn.Instance{onFirst, onSecond} {
				if _, running, err := h.Domain(ctx, i); err != nil || !running {
					t.Errorf("on %s: running %t, %v", i.Host, running, err)
				}
			}
			if err := errors.Join(other.Destroy(ctx, onFirst), other.Undefine(ctx, onFirst), other.Define(ctx, onSecond, []byte(first))); err != nil {
				t.Error(err)
			}
			if domain, _, err := h.Domain(ctx, onSecond); err != nil || string(domain) != first {
				t.Errorf("got %s, %v", domain, err)
			}
			cloud.RemoveGuest(instance)
			for _, i := range []spawn.Instance{onFirst, onSecond} {
				if _, _, err := h.Domain(ctx, i); !errors.Is(err, spawn.ErrNoGuest) {
					t.Errorf("on %s, after its removal: %v", i.Host, err)
				}
			}
		})
	}
}

// What a caller does with a domain does not change the guest.
func TestDomainsAreCopies(t *testing.T) {
	t.Parallel()
	h := guests.New(simcloud.Run(t))
	text := []byte(first)
	must(t, h.Define(t.Context(), onFirst, text))
	text[1] = 'x'
	for range 2 {
		domain, _, err := h.Domain(t.Context(), onFirst)
		if err != nil || string(domain) != first {
			t.Errorf("got %s, %v", domain, err)
		}
		domain[1] = 'x'
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cloud := simcloud.Run(t)
	if err := guests.New(cloud).Define(ctx, onFirst, []byte(first)); !errors.Is(err, context.Canceled) || len(cloud.Guests()) != 0 {
		t.Errorf("%v, %d guests", err, len(cloud.Guests()))
	}
}

// The agent of another host evacuates an instance from a stopped one, which the test did not power off, and the first agent has the
// instance as it was.
func TestAnEvacuationByAnotherAgent(t *testing.T) {
	t.Parallel()
	for name, of := range hypervisors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t)
			a, other := newAgent(t, cloud, of(cloud)), newAgent(t, cloud, of(cloud))
			stale := a.spawn(t, "gpu")
			must(t, cloud.StopHost(stale.Host))
			result, err := other.operations.Evacuate(t.Context(), stale, spawn.MoveOpts{})
			must(t, err)
			cloud.CheckNoLeaks(t)
			var moved *spawn.MovedError
			if err := a.operations.Delete(t.Context(), stale); !errors.As(err, &moved) || moved.Host != result.Host {
				t.Errorf("got %v, want a MovedError with host %s", err, result.Host)
			}
			now, err := a.operations.Inspect(t.Context(), stale)
			if err != nil || now.Host != result.Host {
				t.Fatalf("got host %q, %v, want %s", now.Host, err, result.Host)
			}
			if err := a.operations.Delete(t.Context(), now); err != nil {
				t.Error(err)
			}
			if leaks := cloud.Leaks(); len(leaks) > 1 { // the guest of the stopped host, until that removes it
				t.Errorf("leaks: %v", leaks)
			}
		})
	}
}
