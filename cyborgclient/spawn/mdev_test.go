package spawn_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// mdevHypervisor is a hypervisor that creates mediated devices in the sysfs of the hosts.
type mdevHypervisor struct{ *hypervisor }

var _ spawn.MdevCreator = mdevHypervisor{}

// CreateMdev implements spawn.MdevCreator.
func (h mdevHypervisor) CreateMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	return h.call(ctx, "create mdev", i, func() error {
		handle := driver.AttachHandle{Type: driver.HandleMDEV, Info: driver.Info{}}
		for key, value := range arq.AttachHandleInfo {
			handle.Info[key], _ = value.(string)
		}
		mdev, err := handle.Mdev(arq.AttachHandleUUID)
		if err != nil {
			return err
		}
		return h.cloud.CreateMdev(ctx, i.Host, mdev)
	})
}

// createMdevs makes the hypervisor of a site one that creates mediated devices.
func (s *site) createMdevs(t *testing.T) {
	t.Helper()
	var err error
	if s.ops, err = s.flow.Operations(mdevHypervisor{s.guests}); err != nil {
		t.Fatal(err)
	}
}

// quirksModel is a released Cyborg, whose agent creates no mediated device again.
func quirksModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.UpstreamQuirks = true
	return &model
}

// A released Cyborg shows Bound after a reboot of the host and creates nothing again.
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
			t.Run(profile+", "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, worldOpts{model: quirksModel()})
					i := s.spawn(t, profile)
					s.powerCut(t, i.Host)
					if err := s.cloud.StartHost(t.Context(), i.Host); err != nil {
						t.Fatal(err)
					}
					if mdevs, err := s.cloud.Mdevs(i.Host); len(mdevs) > 0 || err != nil {
						t.Fatalf("Cyborg created %v, %v: the test proves nothing", mdevs, err)
					}
					saved, before := s.guests.saved[placeOf(i)], s.usage(t, i)
					if err := run(s, t.Context(), i); err == nil {
						t.Error("no error although nobody creates the mediated device")
					}
					if name != "rebuild of a stopped guest, and start" {
						s.stayed(t, i, saved, before)
					}
					s.createMdevs(t)
					if err := run(s, t.Context(), i); err != nil {
						t.Fatal(err)
					}
					s.running(t, i, true)
					s.sound(t)
					if err := run(s, t.Context(), i); err != nil {
						t.Errorf("with the device already there: %v", err)
					}
					if err := s.ops.Delete(t.Context(), i); err != nil {
						t.Fatal(err)
					}
					s.sound(t)
				})
			})
		}
	}
}

// One failed creation does not keep the guest off.
func TestResumeTriesToCreateAnMdevAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: quirksModel()})
		i := s.spawn(t, "mixed")
		s.powerCut(t, i.Host)
		if err := s.cloud.StartHost(t.Context(), i.Host); err != nil {
			t.Fatal(err)
		}
		s.createMdevs(t)
		s.guests.fail["create mdev"] = 2
		if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		s.running(t, i, true)
		s.sound(t)
	})
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

// The guest of an unshelved instance does not start on the first host that is tried: the next device is made on the second
// host. The device of an evacuated instance is not made on its old host.
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
