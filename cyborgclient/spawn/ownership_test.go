package spawn_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const novasMdev = "aaaaaaaa-0000-4000-8000-00000000aaaa"

// novaVGPUModel has a card on each host whose vGPUs nova-compute manages, and a profile that only Cyborg's vGPUs
// match.
func novaVGPUModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	for i := range model.Hosts {
		model.Hosts[i].Nova.VGPUs = []simcloud.NovaDevice{{Address: "0000:d0:00.0", Total: 8}}
	}
	for name, amount := range map[string]string{"cyborg-vgpu": "1", "two-vgpus": "2"} {
		model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{
			Name: name, Groups: []map[string]string{{"resources:VGPU": amount, "trait:CUSTOM_GPU_NVIDIA": "required"}},
		})
	}
	return &model
}

// novaProviderOf returns the resource provider of Nova's card on a host, or "".
func (s *site) novaProviderOf(host string) string {
	for _, p := range s.cloud.Placement.ResourceProviders() {
		if p.Name == host+"_pci_0000_d0_00_0" {
			return p.UUID
		}
	}
	return ""
}

// novaVGPU returns a running instance with a vGPU that Nova manages.
func novaVGPU(t *testing.T, s *site) spawn.Instance {
	t.Helper()
	i, err := launchNovaVGPU(t.Context(), s)
	settled(t, err)
	s.guests.calls = nil
	s.cloud.ForgetRequests()
	s.sound(t)
	return i
}

func launchNovaVGPU(ctx context.Context, s *site) (spawn.Instance, error) {
	i, err := s.launch(ctx, "")
	if err != nil {
		return i, err
	}
	s.guests.own[novasMdev] = true
	held := s.cloud.Placement.Allocations()
	held = append(held, placementsim.Allocation{Consumer: i.UUID, Provider: s.novaProviderOf(i.Host), Class: "VGPU", Used: 1})
	if err := s.cloud.Placement.Release(i.UUID); err != nil {
		return i, err
	}
	project := s.cloud.ProjectID("admin")
	if err := s.cloud.Placement.Claim(placementsim.Claim{Consumer: i.UUID, Project: project, User: "u", Allocations: held}); err != nil {
		return i, err
	}
	domain, err := domainxml.Merge(domainxml.NewDomain(domainxml.DomainOpts{Name: "nova"}),
		[]domainxml.Hostdev{{PCI: &domainxml.PCIAddress{Bus: 0xc1}}, {MDEV: novasMdev}}) // and a PCI device of Nova's
	if err != nil {
		return i, err
	}
	if err := s.guests.Define(ctx, i, domain); err != nil {
		return i, err
	}
	delete(s.guests.runs, placeOf(i))
	i.ARQs = nil
	return i, s.guests.Start(ctx, i)
}

func change(i spawn.Instance) spawn.OwnershipChange {
	return spawn.OwnershipChange{Instance: i, Flavor: flavor("cyborg-vgpu")}
}

func takeOver(ctx context.Context, s *site, i *spawn.Instance) error {
	_, err := s.ops.TakeOver(ctx, change(*i))
	return err
}

func TestTakeOverReplacesOnlyTheVGPUOfNova(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaVGPUModel()})
			i := novaVGPU(t, s)
			if !runs {
				settled(t, s.guests.Destroy(t.Context(), i))
			}
			before, held := s.guests.saved[placeOf(i)], s.cloud.Placement.Allocations()
			var released []string
			c := change(i)
			if !runs { // named as well as found
				c.Mdev, c.Provider = strings.ToUpper(novasMdev), s.novaProviderOf(i.Host)
			}
			c.Release = func(_ context.Context, mdev string) error {
				released = append(released, mdev)
				delete(s.guests.own, mdev)
				return nil
			}
			result, err := s.ops.TakeOver(t.Context(), c)
			settled(t, err)
			arqs := s.arqs(t, i)
			if len(arqs) != 1 || arqs[0].State != cyborgclient.StateBound || arqs[0].Hostname != i.Host {
				t.Fatalf("ARQs %+v", arqs)
			}
			want := strings.Replace(before, novasMdev, arqs[0].AttachHandleUUID, 1)
			saved := s.guests.saved[placeOf(i)]
			if diff := cmp.Diff(want, aliases.ReplaceAllString(saved, "")); diff != "" || string(result.Domain) != saved {
				t.Errorf("domain without aliases (-want +got):\n%s", diff)
			}
			s.running(t, i, runs)
			checkDiff(t, "released (-want +got)", []string{novasMdev}, released)
			nova := s.novaProviderOf(i.Host)
			for n := range held {
				if held[n].Provider == nova {
					held[n].Provider = arqs[0].DeviceRPUUID
				}
			}
			checkDiff(t, "allocation (-want +got)", sorted(held), sorted(s.cloud.Placement.Allocations()))
			s.sound(t)
			i.Flavor, i.ARQs = c.Flavor, nil
			settled(t, s.ops.HardReboot(t.Context(), i, nil)) // a reboot as Cyborg's
			settled(t, s.ops.Delete(t.Context(), i))
			settled(t, gone(s, i))
		})
	}
}

func sorted(held []placementsim.Allocation) map[placementsim.Allocation]bool {
	set := map[placementsim.Allocation]bool{}
	for _, a := range held {
		set[a] = true
	}
	return set
}

// An instance with a wrong host is refused, because its domain would get a device of another host.
func TestATakeOverOnAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: novaVGPUModel()})
		i := novaVGPU(t, s)
		s.guests.rename(i, "elsewhere")
		i.Host = "elsewhere"
		_, err := s.ops.TakeOver(t.Context(), change(i))
		if !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), "on host elsewhere") || len(s.cloud.Cyborg.ARQs()) > 0 {
			t.Errorf("error %v, want ErrRequest that names the host", err)
		}
	})
}

// TestAFailedTakeOverLeavesTheInstanceAsItWas has permanent failures before the guest gets its new domain.
func TestAFailedTakeOverLeavesTheInstanceAsItWas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(t *testing.T, s *site, c *spawn.OwnershipChange)
		want   error
	}{
		{"no profile", func(_ *testing.T, _ *site, c *spawn.OwnershipChange) { c.Flavor = flavor("nope") }, spawn.ErrProfile},
		{"a flavor without a profile", func(_ *testing.T, _ *site, c *spawn.OwnershipChange) { c.Flavor = plainFlavor() }, nil},
		{"a profile of another device", func(_ *testing.T, _ *site, c *spawn.OwnershipChange) { c.Flavor = flavor("gpu") }, spawn.ErrProfile},
		{"a profile of several", func(_ *testing.T, _ *site, c *spawn.OwnershipChange) { c.Flavor = flavor("two-vgpus") }, spawn.ErrProfile},
		{"no room", func(t *testing.T, s *site, c *spawn.OwnershipChange) {
			for _, p := range s.cloud.Cyborg.Deployables() {
				if p.ResourceClass() == "VGPU" {
					settled(t, s.cloud.Cyborg.SetDeviceStatus(t.Context(), p.DeviceUUID, "maintaining"))
				}
			}
		}, spawn.ErrNoCandidates},
		{"another mediated device", func(_ *testing.T, _ *site, c *spawn.OwnershipChange) { c.Mdev = instance }, spawn.ErrRequest},
		{"another provider", func(_ *testing.T, _ *site, c *spawn.OwnershipChange) { c.Provider = instance }, spawn.ErrRequest},
		{"the bind is refused", func(t *testing.T, s *site, _ *spawn.OwnershipChange) {
			s.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 403, Times: -1})
		}, cyborgclient.ErrForbidden},
		{"no mediated device", func(t *testing.T, s *site, _ *spawn.OwnershipChange) {
			s.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status, Times: -1})
		}, nil},
		{"the guest cannot be defined", func(_ *testing.T, s *site, _ *spawn.OwnershipChange) { s.guests.fail["define"] = 1 }, errHypervisor},
		{"the guest does not start", func(_ *testing.T, s *site, _ *spawn.OwnershipChange) { s.guests.fail["start"] = 1 }, errHypervisor},
		{"the guest started, it says not", func(_ *testing.T, s *site, _ *spawn.OwnershipChange) {
			s.guests.fail["start"], s.guests.after = 1, true
		}, errHypervisor},
		{"the guest cannot be stopped", func(_ *testing.T, s *site, _ *spawn.OwnershipChange) {
			s.guests.fail["shutdown"], s.guests.fail["destroy"] = 1, 1
		}, errHypervisor},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaVGPUModel()})
			i := novaVGPU(t, s)
			c := change(i)
			c.Release = func(context.Context, string) error { t.Error("Nova's device was released"); return nil }
			tt.change(t, s, &c)
			before, held := s.guests.saved[placeOf(i)], sorted(s.cloud.Placement.Allocations())
			result, err := s.ops.TakeOver(t.Context(), c)
			if err == nil || result != nil || tt.want != nil && !errors.Is(err, tt.want) || len(certainlyLeft(err)) > 0 {
				t.Errorf("result %v, error %v; want %v and nothing left", result, err, tt.want)
			}
			s.running(t, i, true)
			if s.guests.saved[placeOf(i)] != before {
				t.Errorf("the domain changed:\n%s", s.guests.saved[placeOf(i)])
			}
			checkDiff(t, "allocation (-before +after)", held, sorted(s.cloud.Placement.Allocations()))
			if arqs := s.cloud.Cyborg.ARQs(); len(arqs) > 0 {
				t.Errorf("ARQs %v remain", arqs)
			}
			s.sound(t)
		})
	}
}

func TestATakeOverNamesWhatItCouldNotRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: novaVGPUModel()})
		i := novaVGPU(t, s)
		s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Nth: 2, Times: -1, Action: fault.Status, Status: 500})
		c := change(i)
		c.Release = func(context.Context, string) error { return errors.New("sysfs says no") }
		result, err := s.ops.TakeOver(t.Context(), c)
		if result == nil || !errors.Is(err, spawn.ErrLeftover) {
			t.Fatalf("result %v, error %v; want both, with ErrLeftover", result, err)
		}
		for _, text := range []string{i.UUID, "not cleaned up: allocation (", "mdev " + novasMdev, "sysfs says no"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %v does not name %q", err, text)
			}
		}
		s.running(t, i, true)
		settled(t, s.cloud.Faults().Set())
		if _, err := s.ops.TakeOver(t.Context(), c); !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), "set OwnershipChange.Mdev") {
			t.Errorf("again, without the device: %v", err)
		}
		var released []string
		c.Mdev, c.Release = novasMdev, func(_ context.Context, mdev string) error {
			released = append(released, mdev)
			delete(s.guests.own, mdev)
			return nil
		}
		for range 2 { // the second time there is nothing left to release
			again, err := s.ops.TakeOver(t.Context(), c)
			settled(t, err)
			result.Trace, again.Trace = nil, nil
			checkDiff(t, "result (-first +again)", result, again, cmpopts.IgnoreFields(cyborgclient.ARQ{}, "UpdatedAt"))
			for _, held := range s.cloud.Placement.Allocations() {
				if held.Class == "VGPU" && held.Provider != result.ARQs[0].DeviceRPUUID {
					t.Errorf("Nova's vGPU is still claimed: %+v", held)
				}
			}
		}
		checkDiff(t, "released (-want +got)", []string{novasMdev, novasMdev}, released)
		s.running(t, i, true)
		s.sound(t)
		time.Sleep(time.Second)
	})
}

// A guest that runs with Cyborg's device although its start returned an error, and whose old domain cannot be
// restored, keeps the device.
func TestTakeOverLeavesAGuestThatCannotBeRestoredItsDevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: novaVGPUModel()})
		i := novaVGPU(t, s)
		s.guests.after, s.guests.fail["start"] = true, 1 // it starts, but the call fails
		s.guests.onCall("destroy", func() { s.guests.after, s.guests.fail["destroy"] = false, 1 })
		_, err := s.ops.TakeOver(t.Context(), change(i))
		wantKinds(t, leftovers(err), spawn.LeftoverGuest, spawn.LeftoverARQ, spawn.LeftoverAllocation)
		if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != 1 || !strings.Contains(s.guests.runs[placeOf(i)], arqs[0].AttachHandleUUID) {
			t.Errorf("the guest does not run with the device of %v", arqs)
		}
	})
}

// The allocation does not show which service owns which of two vGPUs. TakeOver used to release both, and one was
// still in use.
func TestATakeOverOfOneOfTwoVGPUsIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: novaVGPUModel()})
		i := novaVGPU(t, s)
		const second = "bbbbbbbb-0000-4000-8000-00000000bbbb"
		s.guests.own[second] = true
		domain, err := domainxml.Merge([]byte(s.guests.saved[placeOf(i)]), []domainxml.Hostdev{{MDEV: second}})
		settled(t, err)
		settled(t, s.guests.Define(t.Context(), i, domain))
		held := s.cloud.Placement.Allocations()
		for n := range held {
			if held[n].Provider == s.novaProviderOf(i.Host) {
				held[n].Used = 2
			}
		}
		s.write(t, held)
		before := s.usage(t, i)
		c := change(i)
		c.Mdev = novasMdev
		if _, err := s.ops.TakeOver(t.Context(), c); !errors.Is(err, spawn.ErrRequest) {
			t.Errorf("got %v, want ErrRequest", err)
		}
		checkDiff(t, "usage (-before +after)", before, s.usage(t, i))
	})
}

// Cyborg binds the devices of an instance all at once.
func TestTheVGPUNextToAnAcceleratedPortIsNotTakenOver(t *testing.T) {
	t.Parallel()
	s := newSite(t, worldOpts{model: portModel()})
	i := s.spawn(t, "", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
	_, err := s.ops.TakeOver(t.Context(), change(i))
	blocked(t, err, 400, forbiddenPorts)
	s.sound(t)
}

// A process is killed at each call of a TakeOver. The next TakeOver succeeds, and the instance holds only the new
// vGPU. TakeOver used to claim a second vGPU without an ARQ if it was called again with Nova's provider.
func TestATakeOverIsRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	for n, crashed := 1, true; crashed; n++ {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaVGPUModel()})
			i := novaVGPU(t, s)
			calls := 0
			gone := func() bool { calls++; return calls >= n }
			s.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if gone() {
					return nil, errors.New("the process has ended")
				}
				return next.RoundTrip(req)
			})
			s.renew(t)
			s.guests.hook = func(int) { s.guests.down[i.Host] = gone() }
			_, err := s.ops.TakeOver(t.Context(), change(i))
			crashed = calls >= n
			if err != nil && !crashed {
				t.Fatal(err)
			}
			s.guests.hook, s.guests.down = nil, nil
			s.logIn(t, "admin")
			s.takeOverAgain(t, i)
			time.Sleep(time.Hour)
			_, err = s.flow.Reconcile(t.Context(), s.freeing()) // of ARQs that were not bound
			settled(t, err)
			var held int
			for _, a := range s.cloud.Placement.Allocations() {
				if a.Class == "VGPU" {
					held += a.Used
				}
			}
			if arqs := s.arqs(t, i); len(arqs) != 1 || held != 1 {
				t.Errorf("crash at call %d: %d ARQs, %d VGPU held; want 1 and 1", n, len(arqs), held)
			}
			s.running(t, i, true)
			s.sound(t)
		})
	}
}

// takeOverAgain follows the instructions in the errors of TakeOver.
func (s *site) takeOverAgain(t *testing.T, i spawn.Instance) {
	t.Helper()
	c := change(i)
	c.Mdev, c.Provider = novasMdev, s.novaProviderOf(i.Host)
	_, err := s.ops.TakeOver(t.Context(), c)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "ReleaseDevices"):
		settled(t, s.flow.ReleaseDevices(t.Context(), i.UUID))
		settled(t, s.ops.Start(t.Context(), i))
		_, err = s.ops.TakeOver(t.Context(), c)
	case strings.Contains(err.Error(), "the guest is off"):
		again := i
		again.Flavor = c.Flavor
		settled(t, s.ops.Start(t.Context(), again))
		_, err = s.ops.TakeOver(t.Context(), c)
	}
	settled(t, err)
	settled(t, s.ops.Start(t.Context(), i))
}

// The caller still has the old instance, whose flavor has no device profile.
func TestAfterATakeOverTheOldInstanceLosesNoDevice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"evacuate", "delete", "shelve offload", "local delete", "delete by UUID and host"} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaVGPUModel()})
			i := novaVGPU(t, s)
			settled(t, takeOver(t.Context(), s, &i))
			switch name {
			case "evacuate":
				s.loseHost(t, i.Host)
				before := s.usage(t, i)
				result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
				if result != nil || !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), before.ARQs[0].UUID) {
					t.Errorf("got %v, %v; want ErrRequest with the ARQ", result, err)
				}
				checkDiff(t, "usage changed (-before +after)", before, s.usage(t, i))
				return
			case "delete":
				settled(t, s.ops.Delete(t.Context(), i))
			case "shelve offload":
				settled(t, s.ops.ShelveOffload(t.Context(), i))
			case "local delete":
				settled(t, s.ops.LocalDelete(t.Context(), i))
				s.cloud.RemoveGuest(i.UUID)
			default:
				settled(t, s.ops.Delete(t.Context(), spawn.Instance{UUID: i.UUID, Host: i.Host}))
			}
			s.sound(t)
		})
	}
}
