package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// mdevHypervisor is a hypervisor that creates mediated devices in the sysfs of the hosts.
type mdevHypervisor struct{ *hypervisor }

var _ spawn.MdevCreator = mdevHypervisor{}

// CreateMdev implements spawn.MdevCreator.
func (h mdevHypervisor) CreateMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	return h.create(ctx, i, arq, h.cloud.CreateMdev)
}

func (h mdevHypervisor) create(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ, create func(context.Context, string, driver.Mdev) error) error {
	return h.call(ctx, "create mdev", i, func() error {
		handle := driver.AttachHandle{Type: driver.HandleMDEV, Info: driver.Info{}}
		for key, value := range arq.AttachHandleInfo {
			handle.Info[key], _ = value.(string)
		}
		mdev, err := handle.Mdev(arq.AttachHandleUUID)
		if err != nil {
			return err
		}
		return create(ctx, h.node(i.Host), mdev)
	})
}

// definingHypervisor is a hypervisor that defines mediated devices in libvirt, as Nova 34 does, and undefines them,
// which Nova 34 does not do.
type definingHypervisor struct{ mdevHypervisor }

var _ spawn.MdevRemover = definingHypervisor{}

// CreateMdev implements spawn.MdevCreator.
func (h definingHypervisor) CreateMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	return h.create(ctx, i, arq, h.cloud.DefineMdev)
}

// RemoveMdev implements spawn.MdevRemover.
func (h definingHypervisor) RemoveMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	return h.call(ctx, "remove mdev", i, func() error {
		if h.node(i.Host) != arq.Hostname {
			return fmt.Errorf("the ARQ is on host %s, and not on %s", arq.Hostname, i.Host)
		}
		return h.cloud.RemoveMdev(ctx, h.node(i.Host), arq.AttachHandleUUID)
	})
}

// creator creates the mediated devices of a spawn. It is nil if Cyborg's agent creates them.
func (h *hypervisor) creator() spawn.MdevCreator {
	if h.elsewhere != nil {
		creator, _ := h.elsewhere.(spawn.MdevCreator)
		return creator
	}
	if h.cloud.Model().Cyborg.MdevCreation == fakecyborg.MdevsByNova {
		return definingHypervisor{mdevHypervisor{h}}
	}
	return nil
}

// spawns returns the hypervisor for spawns and operations.
func (h *hypervisor) spawns() spawn.Hypervisor {
	if h.elsewhere != nil {
		return h.elsewhere
	}
	if h.creator() != nil {
		return definingHypervisor{mdevHypervisor{h}}
	}
	return h
}

// mdevHooks are the functions of an agent that defines mediated devices. They get the UUID; a nil function does
// nothing.
type mdevHooks struct{ create, remove func(mdev string) error }

// CreateMdev implements spawn.MdevCreator.
func (h mdevHooks) CreateMdev(_ context.Context, _ spawn.Instance, arq cyborgclient.ARQ) error {
	return callMdevHook(h.create, arq)
}

// RemoveMdev implements spawn.MdevRemover.
func (h mdevHooks) RemoveMdev(_ context.Context, _ spawn.Instance, arq cyborgclient.ARQ) error {
	return callMdevHook(h.remove, arq)
}

func callMdevHook(hook func(string) error, arq cyborgclient.ARQ) error {
	if hook == nil {
		return nil
	}
	return hook(arq.AttachHandleUUID)
}

// createMdevs makes the hypervisor of a site one that creates mediated devices.
func (s *site) createMdevs(t *testing.T) {
	t.Helper()
	ops, err := s.flow.On(mdevHypervisor{s.guests}).Operations()
	settled(t, err)
	s.ops = ops
}

// novaMdevModel is a cloud in which Nova creates the mediated devices, as Nova 34 does.
func novaMdevModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.MdevCreation = fakecyborg.MdevsByNova
	return &model
}

// quirksModel is a released Cyborg, whose agent does not recreate mediated devices.
func quirksModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.UpstreamQuirks = true
	return &model
}

// A released Cyborg shows Bound after a reboot of the host and does not recreate mediated devices.
func TestTheAgentCreatesMdevsAgain(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"vgpu", "mixed"} {
		for name, run := range map[string]func(*site, context.Context, spawn.Instance) error{
			"resume":      func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.ResumeAfterHostReboot(ctx, i) },
			"start":       func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.Start(ctx, i) },
			"hard reboot": func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.HardReboot(ctx, i, nil) },
			"restore":     func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.Restore(ctx, i) },
			"unshelve": func(s *site, ctx context.Context, i spawn.Instance) error {
				_, err := s.ops.Unshelve(ctx, i, spawn.MoveOpts{})
				return err
			},
			"soft reboot": func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.SoftReboot(ctx, i) },
			"unrescue": func(s *site, ctx context.Context, i spawn.Instance) error {
				return s.ops.Unrescue(ctx, i, []byte(s.guests.saved[placeOf(i)]))
			},
			"rebuild of a stopped guest, and start": func(s *site, ctx context.Context, i spawn.Instance) error {
				fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "fresh"})
				return errors.Join(s.ops.Rebuild(ctx, i, fresh), s.ops.Start(ctx, i))
			},
		} {
			bubble(t, profile+", "+name, func(t *testing.T) {
				s := newSite(t, worldOpts{model: quirksModel()})
				i := s.spawn(t, profile)
				s.powerCut(t, i.Host)
				settled(t, s.cloud.StartHost(t.Context(), i.Host))
				if mdevs, err := s.cloud.Mdevs(i.Host); len(mdevs) > 0 || err != nil {
					t.Fatalf("Cyborg created %v, %v: the test proves nothing", mdevs, err)
				}
				saved, before := s.guests.saved[placeOf(i)], s.usage(t, i)
				if err := run(s, t.Context(), i); err == nil {
					t.Error("no error although no service creates the mediated device")
				}
				if name != "rebuild of a stopped guest, and start" {
					s.stayed(t, i, saved, before)
				}
				s.createMdevs(t)
				settled(t, run(s, t.Context(), i))
				s.running(t, i, true)
				s.sound(t)
				settled(t, run(s, t.Context(), i)) // with the device already there
				settled(t, s.ops.Delete(t.Context(), i))
				s.sound(t)
			})
		}
	}
}

// One failed restore of Cyborg's agent does not keep the guest off either.
func TestAFailedRestoreOfCyborgsIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, states := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			model := simcloud.DefaultModel()
			model.Cyborg.BindingStates = states
			s := newSite(t, worldOpts{model: &model})
			i := s.spawn(t, "mixed")
			s.powerCut(t, i.Host)
			s.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status})
			go func() {
				time.Sleep(time.Minute)
				_ = s.cloud.StartHost(context.WithoutCancel(t.Context()), i.Host)
				time.Sleep(time.Minute)
				if err := s.cloud.Cyborg.Report(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}()
			if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
				t.Fatalf("binding states %t: %v", states, err)
			}
			s.running(t, i, true)
			s.sound(t)
		})
	}
}

// The guest of an unshelved instance does not start on the first host, so the next device is created on the second
// host. The device of an evacuated instance is not created on its old host.
func TestAnMdevIsCreatedOnTheHostOfItsARQ(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(*site, *testing.T, spawn.Instance) spawn.Instance
		move func(*spawn.Operations, context.Context, spawn.Instance, spawn.MoveOpts) (*spawn.Result, error)
		fail int // starts
		want string
	}{
		"unshelve": {func(s *site, t *testing.T, i spawn.Instance) spawn.Instance {
			settled(t, s.ops.ShelveOffload(t.Context(), i))
			i.Host, i.ARQs = "", nil
			return i
		}, (*spawn.Operations).Unshelve, 1, "cn2"},
		"evacuate": {func(s *site, t *testing.T, i spawn.Instance) spawn.Instance {
			s.loseHost(t, i.Host)
			return i
		}, (*spawn.Operations).Evacuate, 0, "cn1"},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: threeHosts()})
			i := s.launchOn(t, "cn0", request("vgpu"))
			s.createMdevs(t)
			i = tt.lose(s, t, i)
			s.guests.fail["start"] = tt.fail
			s.guests.calls = nil
			result, err := tt.move(s.ops, t.Context(), i, spawn.MoveOpts{Down: []string{"cn0"}})
			if result == nil || err != nil && !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got %v, %v; want a result", result, err)
			}
			if left := leftARQs(err); len(left) > 0 { // of a mediated device on the host that was down
				settled(t, s.cloud.StartHost(t.Context(), "cn0"))
				settled(t, s.cyborg.DeleteARQs(t.Context(), left))
			}
			if !slices.Contains(s.guests.calls, "create mdev") {
				t.Errorf("calls %v: the test proves nothing", s.guests.calls)
			}
			s.checkMoved(t, i, result, tt.want)
		})
	}
}

// ending is an operation that releases the mediated device of an instance, which the hypervisor has defined.
type ending struct {
	name string
	run  func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error)
	// fails is the error of the operation, or nil.
	fails error
	// again repeats the operation. If it is nil, a reconciliation releases the device.
	again func(ctx context.Context, s *site, i spawn.Instance) error
}

// endings are the operations that remove the definition.
func endings() []ending {
	named := func(err error) ([]spawn.Leftover, error) { return leftovers(err), err }
	return []ending{
		{name: "delete", run: func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error) {
			return named(s.ops.Delete(ctx, i))
		}, again: func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Delete(ctx, i) }},
		{name: "delete that cannot list the ARQs first", run: func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error) {
			if err := s.cloud.Faults().Add(fault.Rule{Operation: fault.ARQList, Subject: i.UUID, Action: fault.Delay, Delay: 24 * time.Hour, Times: 3}); err != nil {
				return nil, err
			}
			return named(s.ops.Delete(ctx, i))
		}, again: func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Delete(ctx, i) }},
		{name: "shelve offload", run: func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error) {
			return named(s.ops.ShelveOffload(ctx, i))
		}, again: func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.ShelveOffload(ctx, i) }},
		{name: "spawn that fails at its start", fails: errHypervisor, run: func(ctx context.Context, s *site, _ spawn.Instance) ([]spawn.Leftover, error) {
			req := request("mixed")
			req.Instance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"
			s.guests.fail["start"] = 9
			_, err := s.starts().Run(ctx, req)
			s.guests.fail["start"] = 0
			return named(err)
		}},
		{name: "unshelve that fails on every host", fails: errHypervisor, run: func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error) {
			if err := s.ops.ShelveOffload(ctx, i); err != nil && !errors.Is(err, spawn.ErrLeftover) {
				return nil, err
			}
			s.guests.fail["start"] = 9
			i.Host, i.ARQs = "", nil
			_, err := s.ops.Unshelve(ctx, i, spawn.MoveOpts{})
			return named(err)
		}},
		{name: "local delete after a crash", run: func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error) {
			delete(s.guests.saved, placeOf(i)) // and then the process of an offload died
			delete(s.guests.runs, placeOf(i))
			s.cloud.RemoveGuest(i.UUID)
			i.Host = ""
			return named(s.ops.LocalDelete(ctx, i))
		}, again: func(ctx context.Context, s *site, i spawn.Instance) error {
			i.Host = ""
			return s.ops.LocalDelete(ctx, i)
		}},
		{name: "unshelve after a crash", run: func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error) {
			delete(s.guests.saved, placeOf(i)) // and then the process of the offload died
			delete(s.guests.runs, placeOf(i))
			s.cloud.RemoveGuest(i.UUID)
			host := i.Host
			i.Host, i.ARQs = "", nil
			result, err := s.ops.Unshelve(ctx, i, spawn.MoveOpts{Order: onHost(s.world, otherThan(host))})
			if err != nil {
				return named(err)
			}
			i.Host = result.Host
			return named(s.ops.Delete(ctx, i))
		}},
		{name: "reconciliation after a crash", run: func(ctx context.Context, s *site, i spawn.Instance) ([]spawn.Leftover, error) {
			delete(s.guests.saved, placeOf(i))
			s.cloud.RemoveGuest(i.UUID)
			found, err := s.starts().Reconcile(ctx, s.freeing())
			return slices.DeleteFunc(found, func(l spawn.Leftover) bool { return l.Err == nil }), err
		}},
	}
}

// otherThan is the other of the two hosts of the default model.
func otherThan(host string) string {
	if host == "cn0" {
		return "cn1"
	}
	return "cn0"
}

// definitions are the mediated devices that libvirt has on any host.
func (s *site) definitions(t *testing.T) (list []string) {
	t.Helper()
	for _, host := range s.cloud.HostNames() {
		defined, err := s.cloud.DefinedMdevs(host)
		settled(t, err)
		for _, m := range defined {
			list = append(list, m.UUID)
		}
	}
	return list
}

// Cyborg's agent removes the device with its ARQ. The definition would outlive both, and the host would create the
// device again.
func TestADefinedMdevIsUndefined(t *testing.T) {
	t.Parallel()
	for _, e := range endings() {
		for _, failures := range []int{0, 1} { // which are tried again
			bubble(t, fmt.Sprintf("%s, %d failures", e.name, failures), func(t *testing.T) {
				s := newSite(t, worldOpts{model: novaMdevModel()})
				i := s.spawn(t, "mixed")
				before := s.definitions(t)
				if len(before) != 1 {
					t.Fatalf("definitions %v: the test proves nothing", before)
				}
				s.guests.fail["remove mdev"] = failures
				if left, err := e.run(t.Context(), s, i); !errors.Is(err, e.fails) || len(left) > 0 {
					t.Errorf("error %v, want %v; leftovers %v", err, e.fails, left)
				}
				s.sound(t)
				if s.guests.fail["remove mdev"] > 0 {
					t.Error("no definition was removed: the test proves nothing")
				}
			})
		}
	}
}

// A definition that cannot be removed keeps its ARQ, because otherwise its device would be unknown. The error names
// the ARQ, and the next call removes both.
func TestADefinitionThatStaysKeepsItsARQ(t *testing.T) {
	t.Parallel()
	for _, e := range endings() {
		bubble(t, e.name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaMdevModel()})
			i := s.spawn(t, "mixed")
			s.guests.fail["remove mdev"] = 1000
			left, err := e.run(t.Context(), s, i)
			if len(left) == 0 || !errors.Is(err, spawn.ErrLeftover) || e.fails != nil && !errors.Is(err, e.fails) {
				t.Errorf("error %v, leftovers %v", err, left)
			}
			for _, l := range left {
				if l.Kind == spawn.LeftoverARQ && (!slices.Contains(s.definedOf(t), l.ID) || !errors.Is(l.Err, errHypervisor) || !l.Certain) {
					t.Errorf("leftover %v: %s, %v", l, l.Kind, l.Err)
				}
			}
			for _, leak := range s.cloud.Leaks() {
				if !slices.ContainsFunc(left, func(l spawn.Leftover) bool { return isLeft(s.cloud, l, leak) }) {
					t.Errorf("%s: %s; it is not among %v", leak.Kind, leak.Text, left)
				}
			}
			delete(s.guests.fail, "remove mdev")
			if e.again == nil {
				_, err = s.starts().Reconcile(t.Context(), s.freeing())
			} else {
				err = e.again(t.Context(), s, i)
			}
			settled(t, err)
			s.sound(t)
		})
	}
}

// The definition on a host that failed is removed before the next host is tried, or the result names it.
func TestAnAttemptOnTheNextHostUndefinesTheMdevOfTheLast(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{0, 3} { // which is all tries on one host
		bubble(t, fmt.Sprint(failures), func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaMdevModel()})
			s.guests.fail["remove mdev"] = failures
			s.guests.fail["start"] = 1
			result, err := s.starts().Run(t.Context(), request("vgpu"))
			settled(t, err)
			if want := failures / 3; len(result.Leftovers) != want || len(s.definitions(t)) != 1+want {
				t.Errorf("leftovers %v, definitions %v; want %d leftovers", result.Leftovers, s.definitions(t), want)
			}
			for _, l := range result.Leftovers {
				if l.Kind != spawn.LeftoverARQ || l.ID == result.ARQs[0].UUID || !slices.Contains(s.definedOf(t), l.ID) {
					t.Errorf("leftover %v", l)
				}
			}
			_, err = s.starts().Reconcile(t.Context(), freeingAll(otherThan(result.Host)))
			settled(t, err)
			s.sound(t)
		})
	}
}

// definedOf lists the ARQs whose mediated devices are defined.
func (s *site) definedOf(t *testing.T) (list []string) {
	t.Helper()
	for _, arq := range s.cloud.Cyborg.ARQs() {
		if slices.Contains(s.definitions(t), arq.AttachHandleUUID) {
			list = append(list, arq.UUID)
		}
	}
	return list
}

// A host that comes back after an evacuation creates the mediated devices that are defined there. Its reconciliation
// removes the definition and the ARQ.
func TestAHostThatComesBackUndefinesTheMdevOfAnEvacuatedInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: novaMdevModel()})
		i := s.spawn(t, "vgpu")
		s.loseHost(t, i.Host)
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		if result == nil || len(leftARQs(err)) != 1 {
			t.Fatalf("got %v, %v; want a result and the ARQ of the old host", result, err)
		}
		delete(s.guests.down, i.Host)
		delete(s.guests.saved, placeOf(i)) // as nova-compute does when its host starts
		settled(t, s.cloud.StartHost(t.Context(), i.Host))
		if mdevs, err := s.cloud.Mdevs(i.Host); len(mdevs) != 1 || err != nil {
			t.Fatalf("mediated devices %v, %v: the test proves nothing", mdevs, err)
		}
		_, err = s.starts().Reconcile(t.Context(), freeingAll(i.Host))
		settled(t, err)
		s.checkMoved(t, i, result, otherThan(i.Host))
	})
}

// If the guest does not start with the new device, it gets its old one, and Cyborg's device is undefined.
func TestAFailedTakeOverUndefinesItsMdev(t *testing.T) {
	t.Parallel()
	for _, fails := range []string{"create mdev", "start"} {
		synctest.Test(t, func(t *testing.T) {
			model := novaVGPUModel()
			model.Cyborg.MdevCreation = fakecyborg.MdevsByNova
			s := newSite(t, worldOpts{model: model})
			i := novaVGPU(t, s)
			s.guests.fail[fails], s.guests.after = 1, true
			if err := takeOver(t.Context(), s, &i); !errors.Is(err, errHypervisor) {
				t.Errorf("%s: error %v", fails, err)
			}
			if list := s.definitions(t); len(list) > 0 {
				t.Errorf("%s: definitions %v", fails, list)
			}
			s.running(t, i, true)
			s.sound(t)
			settled(t, takeOver(t.Context(), s, &i))
			s.running(t, i, true)
			s.sound(t)
		})
	}
}
