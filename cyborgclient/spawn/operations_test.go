package spawn_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// usage has the ARQs and the allocations of an instance.
type usage struct {
	ARQs        []cyborgclient.ARQ
	Allocations []placementsim.Allocation
}

func (s *site) usage(t *testing.T, i spawn.Instance) usage {
	t.Helper()
	u := usage{ARQs: s.arqs(t, i), Allocations: s.cloud.Placement.Allocations()}
	for n := range u.ARQs {
		u.ARQs[n].UpdatedAt = cyborgclient.Time{}
	}
	return u
}

// unchanged checks that an operation leaves ARQs and allocations alone.
func (s *site) unchanged(t *testing.T, i spawn.Instance, operation func() error) error {
	t.Helper()
	before := s.usage(t, i)
	s.cloud.ForgetRequests()
	err := operation()
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("Cyborg was asked for %v", asked)
	}
	checkDiff(t, "usage changed (-before +after)", before, s.usage(t, i))
	s.sound(t)
	return err
}

// blocked checks that an operation is refused with Nova's error.
func blocked(t *testing.T, err error, code int, text string) {
	t.Helper()
	var refusal *spawn.BlockedError
	if !errors.As(err, &refusal) || !errors.Is(err, spawn.ErrBlocked) || refusal.Code != code || refusal.Text != text {
		t.Errorf("error %v, want %d with %q", err, code, text)
	}
}

const (
	forbiddenAccelerators = "Feature not supported with instances that have accelerators."
	forbiddenPorts        = "Feature not supported with Ports that have accelerators."
)

// everyKind is an instance of the profile of each handle type, and one that has its
// accelerator on a port.
func everyKind() []string { return []string{"gpu", "vgpu", "fake", "port", "gpu and port"} }

// each runs a test on a running instance of every kind.
func each(t *testing.T, kinds []string, test func(t *testing.T, s *site, i spawn.Instance)) {
	t.Helper()
	eachOn(t, portModel(), kinds, test)
}

func eachOn(t *testing.T, model *simcloud.Model, kinds []string, test func(t *testing.T, s *site, i spawn.Instance)) {
	t.Helper()
	for _, kind := range kinds {
		bubble(t, kind, func(t *testing.T) {
			s := newSite(t, worldOpts{model: model})
			port := acceleratedPort(port1, "nic", "52:54:00:1e:59:c3")
			var i spawn.Instance
			switch kind {
			case "port":
				i = s.spawn(t, "", port)
			case "gpu and port":
				i = s.spawn(t, "gpu", port)
			default:
				i = s.spawn(t, kind)
			}
			test(t, s, i)
		})
	}
}

func withProfile() []string { return []string{"gpu", "vgpu", "fake"} }

// TestOperations has a row for each operation of Nova's rules.
func TestOperations(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		run  func(*testing.T)
	}{
		{"create", opCreate},
		{"delete, force-delete, reclaim of soft-deleted", opDelete},
		{"local delete", opLocalDelete},
		{"soft delete and restore", opSoftDelete},
		{"stop and start", opStopStart},
		{"soft reboot", opSoftReboot},
		{"hard reboot", opHardReboot},
		{"pause and unpause, lock and unlock", opFree(spawn.OpPause, spawn.OpUnpause, spawn.OpLock, spawn.OpUnlock)},
		{"snapshot, backup", opFree(spawn.OpSnapshot, spawn.OpBackup)},
		{"rescue", opRescue},
		{"rebuild", opRebuild},
		{"evacuate", opEvacuate},
		{"shelve", opShelve},
		{"shelve offload", opShelveOffload},
		{"unshelve, SHELVED", opUnshelve},
		{"unshelve, SHELVED_OFFLOADED", opUnshelveOffloaded},
		{"suspend", opBlocked(spawn.OpSuspend)},
		{"resize from D", opResizeFrom},
		{"resize to a flavor with DP", opResizeTo},
		{"cold migrate, live migrate", opBlocked(spawn.OpMigrate, spawn.OpLiveMigrate)},
		{"attach and detach interface", opPorts},
		{"heal_allocations", opHeal},
		{"resume guests on host boot", opHostReboot},
		{"upgrade pins", opPins},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { t.Parallel(); row.run(t) })
	}
}

func opCreate(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		s.running(t, i, true)
		settled(t, spawn.Permit(spawn.OpCreate, i))
		i.ServiceVersion = 56
		err := spawn.Permit(spawn.OpCreate, i)
		if len(i.Ports) == 0 {
			if err != nil {
				t.Errorf("without a port: %v", err)
			}
			return
		}
		blocked(t, err, 400, "Port with cyborg profile is not available until upgrade finished.")
	})
}

func opDelete(t *testing.T) {
	t.Run("without accelerators", func(t *testing.T) { t.Parallel(); opDeletePlain(t) })
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		settled(t, s.ops.Delete(t.Context(), i))
		checkDiff(t, "calls (-want +got)", []string{"destroy", "undefine"}, s.guests.calls)
		want := []string{}
		if len(i.ARQs) > 0 {
			want = append(want, "accelerator.arq.delete arqs")
		}
		checkDiff(t, "asked of Cyborg (-want +got)", want, s.asked())
		s.nothingHeld(t)
		settled(t, s.ops.Delete(t.Context(), i)) // a second time
	})
}

// The ARQs of an instance without accelerators are listed, too, because the caller may know less than Cyborg. If
// Cyborg is down the rest is freed.
func opDeletePlain(t *testing.T) {
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "")
			if down {
				s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 503, Times: -1})
			}
			err := s.ops.Delete(t.Context(), i)
			if !down {
				settled(t, err)
			} else {
				wantKinds(t, leftovers(err), spawn.LeftoverARQs)
			}
			if asked := s.asked(); len(asked) > 0 {
				t.Errorf("Cyborg was asked for %v", asked)
			}
			s.sound(t)
		})
	}
}

func opLocalDelete(t *testing.T) {
	eachStuck(t, opLocalDeleteStuck)
	each(t, []string{"gpu", "fake", "port", "gpu and port"}, func(t *testing.T, s *site, i spawn.Instance) {
		s.loseHost(t, i.Host)
		settled(t, s.ops.LocalDelete(t.Context(), i))
		if len(s.guests.calls) > 0 {
			t.Errorf("the host that is down was asked for %v", s.guests.calls)
		}
		s.cloud.RemoveGuest(i.UUID)
		s.sound(t)
	})
}

func opSoftDelete(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		settled(t, s.unchanged(t, i, func() error { return s.ops.SoftDelete(t.Context(), i) }))
		s.running(t, i, false)
		settled(t, s.unchanged(t, i, func() error { return s.ops.Restore(t.Context(), i) }))
		s.running(t, i, true)
	})
}

func opStopStart(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		for _, stuck := range []bool{false, true} {
			s.guests.stuck = stuck
			settled(t, s.unchanged(t, i, func() error { return s.ops.Stop(t.Context(), i) }))
			s.running(t, i, false)
			settled(t, s.unchanged(t, i, func() error { return s.ops.Start(t.Context(), i) }))
			s.running(t, i, true)
			s.guests.calls = nil
			if err := s.ops.Start(t.Context(), i); err != nil || slices.Contains(s.guests.calls, "destroy") {
				t.Errorf("of a guest that runs: %v after %v", err, s.guests.calls)
			}
		}
	})
	bubble(t, "Cyborg lists none", func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		settled(t, s.ops.Stop(t.Context(), i))
		settled(t, s.cloud.Cyborg.DeleteARQs(t.Context(), i.ARQs...))
		if err := s.ops.Start(t.Context(), i); !errors.Is(err, spawn.ErrNoARQs) {
			t.Errorf("error %v, want ErrNoARQs", err)
		}
		s.running(t, i, false)
	})
	bubble(t, "Cyborg does not answer", func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		settled(t, s.ops.Stop(t.Context(), i))
		s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 503, Times: -1})
		if err := s.ops.Start(t.Context(), i); !errors.Is(err, cyborgclient.ErrUnavailable) || !errors.Is(err, spawn.ErrNotBound) {
			t.Errorf("error %v, want ErrNotBound and ErrUnavailable", err)
		}
		s.running(t, i, false)
		s.cloud.Faults().Clear()
		settled(t, s.ops.Start(t.Context(), i))
	})
}

var aliases = regexp.MustCompile(`\s*<alias [^>]*>`)

func opSoftReboot(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		settled(t, s.unchanged(t, i, func() error { return s.ops.SoftReboot(t.Context(), i) }))
		s.running(t, i, true)
		checkDiff(t, "calls (-want +got)", []string{"domain", "shutdown", "start"}, s.guests.calls)
		if len(i.ARQs) > 0 { // Nova has defined the domain anew
			whole := s.guests.saved[placeOf(i)]
			s.guests.saved[placeOf(i)] = aliases.ReplaceAllString(whole, "") // of an earlier version
			s.guests.calls = nil
			err := s.unchanged(t, i, func() error { return s.ops.SoftReboot(t.Context(), i) })
			if err != nil || slices.Contains(s.guests.calls, "destroy") {
				t.Errorf("of a guest that lacks only aliases: error %v after %v, want a soft reboot", err, s.guests.calls)
			}
			s.guests.saved[placeOf(i)] = string(domainxml.NewDomain(domainxml.DomainOpts{Name: "bare"}))
			settled(t, s.ops.SoftReboot(t.Context(), i))
			if got := s.guests.saved[placeOf(i)]; strings.Count(got, "<address ") != strings.Count(whole, "<address ") {
				t.Errorf("after the reboot of a guest that lacks its devices:\n%s", got)
			}
			s.guests.saved[placeOf(i)], s.guests.runs[placeOf(i)] = whole, whole
		}
		settled(t, s.guests.Destroy(t.Context(), i))
		s.guests.calls = nil
		if err := s.ops.SoftReboot(t.Context(), i); err != nil || slices.Contains(s.guests.calls, "shutdown") {
			t.Errorf("of a guest that is off: error %v after %v, want no shutdown", err, s.guests.calls)
		}
		s.guests.calls, s.guests.stuck = nil, true
		settled(t, s.unchanged(t, i, func() error { return s.ops.SoftReboot(t.Context(), i) }))
		s.running(t, i, true)
		if !slices.Contains(s.guests.calls, "destroy") {
			t.Errorf("calls %v: want it to fall back to a hard reboot", s.guests.calls)
		}
		s.guests.calls = nil
		s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403, Times: -1})
		if err := s.ops.SoftReboot(t.Context(), i); !errors.Is(err, cyborgclient.ErrForbidden) || len(s.guests.calls) > 0 {
			t.Errorf("error %v after %v, want the refusal before anything", err, s.guests.calls)
		}
		s.running(t, i, true)
	})
}

func opHardReboot(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		saved := s.guests.saved[placeOf(i)]
		settled(t, s.unchanged(t, i, func() error { return s.ops.HardReboot(t.Context(), i, nil) }))
		s.running(t, i, true)
		checkDiff(t, "a complete domain changed (-before +after)", saved, s.guests.saved[placeOf(i)])
		regenerated := domainxml.NewDomain(domainxml.DomainOpts{Name: "regenerated"})
		settled(t, s.unchanged(t, i, func() error { return s.ops.HardReboot(t.Context(), i, regenerated) }))
		s.running(t, i, true)
		if !strings.Contains(s.guests.saved[placeOf(i)], "<name>regenerated</name>") {
			t.Errorf("the saved domain is not the regenerated one:\n%s", s.guests.saved[placeOf(i)])
		}
	})
}

// opFree is for operations that the library does not implement: they are permitted and do not affect accelerators.
func opFree(ops ...spawn.Operation) func(*testing.T) {
	return func(t *testing.T) {
		each(t, everyKind(), func(t *testing.T, _ *site, i spawn.Instance) {
			for _, op := range ops {
				if err := spawn.Permit(op, i); err != nil {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

func opRescue(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		before := s.usage(t, i)
		was := s.guests.saved[placeOf(i)]
		rescue := strings.Replace(was, "<name>", "<title>rescue</title><name>", 1) // with every device
		saved, err := s.ops.Rescue(t.Context(), i, []byte(rescue))
		settled(t, err)
		if string(saved) != was {
			t.Errorf("saved:\n%s", saved)
		}
		if left, err := domainxml.Read([]byte(s.guests.runs[placeOf(i)])); err != nil || len(left) > 0 {
			t.Errorf("the rescue guest has %v, %v", left, err)
		}
		checkDiff(t, "usage changed (-before +after)", before, s.usage(t, i))
		settled(t, s.ops.Unrescue(t.Context(), i, saved))
		s.running(t, i, true)
		if s.guests.saved[placeOf(i)] != was {
			t.Errorf("not restored:\n%s", s.guests.saved[placeOf(i)])
		}
		s.sound(t)
		s.cloud.ForgetRequests()
		if _, err := s.ops.Rescue(t.Context(), i, domainxml.NewDomain(domainxml.DomainOpts{Name: "rescue"})); err != nil || s.lists() > 0 {
			t.Errorf("error %v, %d lists of ARQs; want success without Cyborg", err, s.lists())
		}
		s.guests.calls = nil
		if err := s.ops.Unrescue(t.Context(), i, nil); !errors.Is(err, spawn.ErrRequest) || len(s.guests.calls) > 0 {
			t.Errorf("without the saved domain: got %v after the calls %v, want ErrRequest", err, s.guests.calls)
		}
	})
}

func opRebuild(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "rebuilt"})
		settled(t, s.unchanged(t, i, func() error { return s.ops.Rebuild(t.Context(), i, fresh) }))
		s.running(t, i, true)
		i.ServiceVersion = 52
		if _, ok := i.Flavor.DeviceProfile(); ok {
			blocked(t, s.ops.Rebuild(t.Context(), i, fresh), 400, forbiddenAccelerators)
		}
		i.ServiceVersion = 53
		settled(t, s.ops.Rebuild(t.Context(), i, fresh))
	})
	t.Run("of a stopped instance", func(t *testing.T) { t.Parallel(); each(t, everyKind(), opRebuildStopped) })
}

// opRebuildStopped: after a rebuild Nova stops an instance that was stopped before.
func opRebuildStopped(t *testing.T, s *site, i spawn.Instance) {
	settled(t, s.ops.Stop(t.Context(), i))
	fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "rebuilt"})
	settled(t, s.unchanged(t, i, func() error { return s.ops.Rebuild(t.Context(), i, fresh) }))
	s.running(t, i, false)
	saved := s.guests.saved[placeOf(i)]
	if !strings.Contains(saved, "<name>rebuilt</name>") || slices.Contains(s.guests.calls, "start") {
		t.Errorf("calls %v, saved:\n%s", s.guests.calls, saved)
	}
	settled(t, s.ops.Start(t.Context(), i))
	s.running(t, i, true)
	if got := s.guests.saved[placeOf(i)]; got != saved {
		t.Errorf("the start changed the rebuilt domain:\n%s", got)
	}
}

func opEvacuate(t *testing.T) {
	eachStuck(t, opEvacuateStuck)
	states := portModel()
	states.Cyborg.BindingStates = true
	eachOn(t, states, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		if len(i.Ports) > 0 {
			_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
			blocked(t, err, 400, forbiddenPorts)
			s.sound(t)
			return
		}
		old := s.arqs(t, i)
		s.loseHost(t, i.Host)
		s.cloud.ForgetRequests()
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		checkDiff(t, "asked of Cyborg (-want +got)", []string{"accelerator.arq.delete arqs", "accelerator.arq.create ", "accelerator.arq.bind "}, s.asked())
		now := s.arqs(t, i)
		if result.Host == i.Host || len(now) != len(old) || now[0].Hostname != result.Host || now[0].UUID == old[0].UUID {
			t.Errorf("on host %s with %v, before %s with %v", result.Host, now, i.Host, old)
		}
		moved := spawn.InstanceOf(request(""), result)
		moved.Flavor = i.Flavor
		s.running(t, moved, true)
		if old[0].AttachHandleType == cyborgclient.HandleMDEV { // its handle is free once the host is back
			settled(t, s.cloud.StartHost(t.Context(), i.Host))
		}
		s.sound(t)
		for _, allocation := range s.cloud.Placement.Allocations() {
			if allocation.Provider == s.cloud.ProviderUUID(i.Host) {
				t.Errorf("it still holds %+v of the old host", allocation)
			}
		}
		i.ServiceVersion = 52
		_, err = s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		blocked(t, err, 400, forbiddenAccelerators)
	})
}

// eachStuck runs a test on an instance with a mediated device whose host is lost, for each Cyborg without binding
// states. Zed does not show mediated devices.
func eachStuck(t *testing.T, test func(t *testing.T, s *site, i spawn.Instance, old []cyborgclient.ARQ)) {
	t.Helper()
	for _, profile := range []string{"vgpu", "mixed"} {
		for name, config := range map[string]fakecyborg.Config{
			"default": {}, "async": {AsyncBind: true}, "quirks": {UpstreamQuirks: true}, "async quirks": {AsyncBind: true, UpstreamQuirks: true},
			"master": {Release: fakecyborg.ReleaseMaster, UpstreamQuirks: true},
		} {
			bubble(t, "without binding states, "+profile+", "+name, func(t *testing.T) {
				model := simcloud.DefaultModel()
				model.Cyborg = config
				s := newSite(t, worldOpts{model: &model})
				i := s.spawn(t, profile)
				old := s.arqs(t, i)
				s.loseHost(t, i.Host)
				test(t, s, i, old)
			})
		}
	}
}

// opEvacuateStuck: the ARQ of the mediated device stays. The instance gets new ARQs in addition, and its other
// resources of the old host are released.
func opEvacuateStuck(t *testing.T, s *site, i spawn.Instance, old []cyborgclient.ARQ) {
	began := time.Now()
	result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if result == nil {
		t.Fatal(err)
	}
	stuck := onlyMdev(t, err, old)
	if len(s.arqs(t, i)) != len(old)+1 {
		t.Errorf("ARQs %v, want %d new ones and the named one", s.arqs(t, i), len(old))
	}
	for _, a := range s.cloud.Placement.Allocations() {
		if a.Provider == s.cloud.ProviderUUID(i.Host) {
			t.Errorf("it still holds %+v of the old host", a)
		}
	}
	moved := spawn.InstanceOf(spawn.Request{Instance: i.UUID, Flavor: i.Flavor}, result)
	s.running(t, moved, true)
	for name, run := range map[string]func(spawn.Instance) error{ // with the ARQ of the dead host in the list
		"hard reboot": func(i spawn.Instance) error { return s.ops.HardReboot(t.Context(), i, nil) },
		"soft reboot": func(i spawn.Instance) error { return s.ops.SoftReboot(t.Context(), i) },
	} {
		if err := run(moved); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		unknown := moved
		unknown.ARQs = nil
		if err := run(unknown); err != nil {
			t.Errorf("%s without the ARQs: %v", name, err)
		}
	}
	onlyMdev(t, s.ops.Delete(t.Context(), moved), old) // frees all others
	settled(t, s.cloud.StartHost(t.Context(), i.Host))
	settled(t, s.cyborg.DeleteARQs(t.Context(), []string{stuck}))
	s.sound(t)
}

// onlyMdev checks that an error names one ARQ, with a mediated device, and nothing else,
// and returns its UUID.
func onlyMdev(t *testing.T, err error, arqs []cyborgclient.ARQ) string {
	t.Helper()
	left := leftovers(err)
	if !errors.Is(err, spawn.ErrLeftover) || len(left) != 1 {
		t.Fatalf("error %v, want ErrLeftover with one ARQ", err)
	}
	id := left[0].ID
	if !slices.ContainsFunc(arqs, func(a cyborgclient.ARQ) bool { return a.UUID == id && a.AttachHandleType == cyborgclient.HandleMDEV }) {
		t.Fatalf("the leftover is %s, want the ARQ of the mediated device of %v", id, arqs)
	}
	if !strings.Contains(err.Error(), "before Cyborg's agent of host") {
		t.Errorf("error %v does not say what it waits for", err)
	}
	return id
}

// A deletion that a dead agent fails is repeated if Cyborg answers quickly. If Cyborg waits a minute for the agent,
// the deletion is sent once.
func TestADeadAgentIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "vgpu")
			s.loseHost(t, i.Host)
			rule := fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: -1}
			want := []time.Duration{0, 400 * time.Millisecond, 1200 * time.Millisecond}
			if !answers {
				rule.Action, rule.Status, rule.Delay = fault.Delay, 0, time.Minute
				want = want[:1]
			}
			s.fail(t, rule)
			began := time.Now()
			var asked []time.Duration
			s.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if arqCall(t, req) == "delete" {
					asked = append(asked, time.Since(began))
				}
				return next.RoundTrip(req)
			})
			s.renew(t)
			if err := s.ops.LocalDelete(t.Context(), i); !errors.Is(err, spawn.ErrLeftover) {
				t.Errorf("got error %v, want ErrLeftover", err)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %s", took)
			}
			checkDiff(t, "asked for the deletion after (-want +got)", want, asked)
		})
	}
}

// opLocalDeleteStuck: the ARQ of a mediated device stays, and nothing else.
func opLocalDeleteStuck(t *testing.T, s *site, i spawn.Instance, old []cyborgclient.ARQ) {
	began := time.Now()
	onlyMdev(t, s.ops.LocalDelete(t.Context(), i), old)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if arqs, held := s.arqs(t, i), s.cloud.Placement.Allocations(); len(arqs) != 1 || len(held) > 0 {
		t.Errorf("left: %v, %v; want one ARQ", arqs, held)
	}
	settled(t, s.cloud.StartHost(t.Context(), i.Host))
	settled(t, s.ops.LocalDelete(t.Context(), i)) // when Cyborg's agent is back
	s.cloud.RemoveGuest(i.UUID)
	s.sound(t)
}

func opShelve(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		err := s.unchanged(t, i, func() error { return s.ops.Shelve(t.Context(), i) })
		if len(i.Ports) > 0 {
			blocked(t, err, 400, forbiddenPorts)
			s.running(t, i, true)
			return
		}
		settled(t, err)
		s.running(t, i, false)
		for _, tt := range []struct {
			service, rpc int
			open         bool
		}{{53, 0, false}, {54, 0, true}, {0, 12, false}, {0, 13, true}} {
			i.ServiceVersion, i.RPC = tt.service, tt.rpc
			if err := spawn.Permit(spawn.OpShelve, i); !tt.open {
				blocked(t, err, 400, forbiddenAccelerators)
			} else if err != nil {
				t.Errorf("%+v: %v", tt, err)
			}
		}
	})
}

func opShelveOffload(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		err := s.ops.ShelveOffload(t.Context(), i)
		if len(i.Ports) > 0 {
			blocked(t, err, 400, forbiddenPorts)
			s.running(t, i, true)
			return
		}
		settled(t, err)
		checkDiff(t, "asked of Cyborg (-want +got)", []string{"accelerator.arq.delete arqs"}, s.asked())
		if arqs := s.arqs(t, i); len(arqs) != 0 {
			t.Errorf("ARQs %v remain", arqs)
		}
		s.sound(t)
	})
}

func opUnshelve(t *testing.T) {
	each(t, withProfile(), func(t *testing.T, s *site, i spawn.Instance) {
		settled(t, s.ops.Shelve(t.Context(), i))
		err := s.unchanged(t, i, func() error {
			result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
			if result != nil {
				t.Errorf("result %v although it is on its host", result)
			}
			return err
		})
		settled(t, err)
		s.running(t, i, true)
	})
}

func opUnshelveOffloaded(t *testing.T) {
	each(t, withProfile(), func(t *testing.T, s *site, i spawn.Instance) {
		settled(t, s.ops.ShelveOffload(t.Context(), i))
		i.Host, i.ARQs = "", nil
		s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403, Times: -1})
		if _, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{}); err == nil {
			t.Error("no error although the ARQs cannot be listed")
		}
		s.cloud.Faults().Clear()
		s.sound(t)
		result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{}) // nothing of the first is in its way
		settled(t, err)
		if arqs := s.arqs(t, i); len(arqs) != 1 || arqs[0].State != cyborgclient.StateBound {
			t.Errorf("ARQs %v", arqs)
		}
		i.Host = result.Host
		s.running(t, i, true)
		s.sound(t)
		opts := s.scope() // the instance is no longer busy
		opts.Living = noneLiving
		if orphans, err := s.flow.Reconcile(t.Context(), opts); err != nil || len(orphans) != 2 {
			t.Errorf("found %v, error %v; want the ARQ and the allocation of an instance that is not living", orphans, err)
		}
	})
}

// opBlocked is for operations that are refused.
func opBlocked(ops ...spawn.Operation) func(*testing.T) {
	return func(t *testing.T) {
		each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
			for _, op := range ops {
				blocked(t, s.unchanged(t, i, func() error { return spawn.Permit(op, i) }), 400, textFor(i))
			}
		})
	}
}

// textFor is the text of what is blocked for both; the flavor's comes first.
func textFor(i spawn.Instance) string {
	if _, ok := i.Flavor.DeviceProfile(); ok {
		return forbiddenAccelerators
	}
	return forbiddenPorts
}

func opResizeFrom(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		blocked(t, s.unchanged(t, i, func() error { return spawn.PermitResize(i, plainFlavor()) }), 400, textFor(i))
	})
}

func opResizeTo(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "")
	blocked(t, spawn.PermitResize(i, flavor("gpu")), 400, forbiddenAccelerators)
	settled(t, spawn.PermitResize(i, plainFlavor())) // without accelerators
}

func opPorts(t *testing.T) {
	each(t, []string{"gpu", "port"}, func(t *testing.T, s *site, i spawn.Instance) {
		accelerated, plain := acceleratedPort(port2, "nic", ""), spawn.Port{}
		plain.UUID = port2
		for _, op := range []spawn.Operation{spawn.OpAttachPort, spawn.OpDetachPort} {
			blocked(t, s.unchanged(t, i, func() error { return spawn.Permit(op, withOnlyPort(i, accelerated)) }), 400, forbiddenPorts)
			settled(t, spawn.Permit(op, withOnlyPort(i, plain))) // a port without an accelerator
		}
	})
}

// withOnlyPort is the instance that Permit checks when a port is attached or detached.
func withOnlyPort(i spawn.Instance, port spawn.Port) spawn.Instance {
	i.Ports = []spawn.Port{port}
	return i
}

func opHeal(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		err := spawn.Permit(spawn.OpHealAllocations, i)
		if _, ok := i.Flavor.DeviceProfile(); ok {
			blocked(t, err, 8, "Healing allocation for instance "+i.UUID+" with Cyborg device profile request is not supported.")
		} else if err != nil {
			t.Error(err)
		}
	})
}

func opHostReboot(t *testing.T) {
	each(t, everyKind(), func(t *testing.T, s *site, i spawn.Instance) {
		s.powerCut(t, i.Host)
		s.running(t, i, false)
		settled(t, s.cloud.StartHost(t.Context(), i.Host))
		settled(t, s.unchanged(t, i, func() error { return s.ops.ResumeAfterHostReboot(t.Context(), i) }))
		s.running(t, i, true)
	})
}

// opPins: with an old RPC version Nova silently dropped the UUIDs, and refused to shelve with them. The library does
// not pass UUIDs to a nova-compute, so it implements only the refusal.
func opPins(t *testing.T) {
	each(t, []string{"gpu"}, func(t *testing.T, _ *site, i spawn.Instance) {
		for _, op := range []spawn.Operation{spawn.OpRebuild, spawn.OpEvacuate, spawn.OpShelveOffload, spawn.OpUnshelve} {
			i.RPC = 10
			if err := spawn.Permit(op, i); err != nil {
				t.Errorf("%s at RPC 5.10: %v", op, err)
			}
		}
		blocked(t, spawn.Permit(spawn.OpShelve, i), 400, forbiddenAccelerators)
	})
}

// TestLifecycle is the life of an instance as Cyborg's own tests walk it: after
// each operation the ARQ is Bound with a handle and belongs to the server.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	handle := map[string]cyborgclient.HandleType{"gpu": "PCI", "fake": "TEST_PCI", "vgpu": "MDEV"}
	each(t, withProfile(), func(t *testing.T, s *site, i spawn.Instance) {
		profile, _ := i.Flavor.DeviceProfile()
		ctx := t.Context()
		permit := func(ops ...spawn.Operation) func() error {
			return func() error {
				for _, op := range ops {
					if err := spawn.Permit(op, i); err != nil {
						return err
					}
				}
				return nil
			}
		}
		steps := []struct {
			name string
			run  func() error
		}{
			{"create", func() error { return nil }},
			{"guest reboot", func() error {
				return errors.Join(s.guests.Shutdown(ctx, i), s.guests.Start(ctx, i))
			}},
			{"soft reboot", func() error { return s.ops.SoftReboot(ctx, i) }},
			{"hard reboot", func() error { return s.ops.HardReboot(ctx, i, nil) }},
			{"pause, unpause", permit(spawn.OpPause, spawn.OpUnpause)},
			{"snapshot, backup", permit(spawn.OpSnapshot, spawn.OpBackup)},
			{"lock, unlock", permit(spawn.OpLock, spawn.OpUnlock)},
			{"rebuild", func() error { return s.ops.Rebuild(ctx, i, domainxml.NewDomain(domainxml.DomainOpts{})) }},
			{"shelve", func() error { return s.ops.Shelve(ctx, i) }},
			{"unshelve", func() error { _, err := s.ops.Unshelve(ctx, i, spawn.MoveOpts{}); return err }},
		}
		for _, step := range steps {
			if err := step.run(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			arqs := s.arqs(t, i)
			if len(arqs) != 1 || arqs[0].State != cyborgclient.StateBound || arqs[0].AttachHandleType != handle[profile] || arqs[0].InstanceUUID != i.UUID {
				t.Errorf("after %s: %+v", step.name, arqs)
			}
			for _, key := range []string{"domain", "bus", "device", "function"} {
				if text, _ := arqs[0].AttachHandleInfo[key].(string); text == "" {
					t.Errorf("after %s the handle has no %s", step.name, key)
				}
			}
			s.sound(t)
		}
		settled(t, s.ops.Delete(ctx, i))
		if arqs := s.arqs(t, i); len(arqs) != 0 {
			t.Errorf("after delete: %v", arqs)
		}
	})
}

func TestAnOperationNeedsAnInstance(t *testing.T) {
	t.Parallel()
	s := newSite(t, worldOpts{})
	bad := spawn.Instance{UUID: "vm1", Flavor: flavor("gpu")}
	for name, operation := range map[string]func(context.Context, spawn.Instance) error{
		"delete": s.ops.Delete, "local delete": s.ops.LocalDelete, "stop": s.ops.Stop, "start": s.ops.Start,
		"soft reboot": s.ops.SoftReboot, "shelve": s.ops.Shelve, "resume": s.ops.ResumeAfterHostReboot,
	} {
		if err := operation(t.Context(), bad); !errors.Is(err, spawn.ErrRequest) || len(s.guests.calls) > 0 {
			t.Errorf("%s: error %v after %v, want ErrRequest before anything", name, err, s.guests.calls)
		}
	}
	bad = spawn.Instance{UUID: instance, Flavor: flavor("gpu"), ARQs: []string{"arq1"}}
	if err := s.ops.Stop(t.Context(), bad); !errors.Is(err, spawn.ErrRequest) || len(s.guests.calls) > 0 {
		t.Errorf("an ARQ without a UUID: error %v after %v, want ErrRequest before anything", err, s.guests.calls)
	}
	if _, err := s.flow.Operations(); !errors.Is(err, spawn.ErrConfig) {
		t.Errorf("without a hypervisor: %v, want ErrConfig", err)
	}
	guestless := spawn.Instance{UUID: instance, Host: "cn0", Flavor: plainFlavor()}
	if err := s.ops.Start(t.Context(), guestless); !errors.Is(err, spawn.ErrNoGuest) {
		t.Errorf("a guest that is not there: %v, want ErrNoGuest", err)
	}
}

// An evacuation that fails after it deleted the old ARQs names the ARQs that remain: their mediated device can only
// be removed by the agent of the dead host, or their deletion had no response. It also names the allocation of their
// devices.
func TestAFailedEvacuationNamesWhatStaysOnTheDeadHost(t *testing.T) {
	t.Parallel()
	for profile, fail := range map[string]func(*site){
		"vgpu": func(s *site) { s.guests.fail["start"] = 99 },
		"gpu": func(s *site) {
			s.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Drop, When: fault.After, Times: -1})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, profile)
			arq := s.arqs(t, i)[0].UUID
			s.loseHost(t, i.Host)
			fail(s)
			_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
			wantKinds(t, leftovers(err), spawn.LeftoverARQ, spawn.LeftoverAllocation)
			if named := leftARQs(err); !slices.Equal(named, []string{arq}) {
				t.Errorf("%s: named %v, want ARQ %s", profile, named, arq)
			}
		})
	}
}

// An agent that does not know the outcome of an Evacuate or Unshelve repeats it with the old instance. The guest on
// its new host is not touched.
func TestAMoveThatIsRepeatedLeavesTheGuestAlone(t *testing.T) {
	t.Parallel()
	reversed := func(candidates []spawn.Candidate) []spawn.Candidate {
		candidates = slices.Clone(candidates)
		slices.Reverse(candidates)
		return candidates
	}
	evacuate := func(ctx context.Context, s *site, i spawn.Instance, opts spawn.MoveOpts) (*spawn.Result, error) {
		return s.ops.Evacuate(ctx, i, opts)
	}
	unshelve := func(ctx context.Context, s *site, i spawn.Instance, opts spawn.MoveOpts) (*spawn.Result, error) {
		i.Host, i.ARQs = "", nil
		return s.ops.Unshelve(ctx, i, opts)
	}
	for name, tt := range map[string]struct {
		move func(context.Context, *site, spawn.Instance, spawn.MoveOpts) (*spawn.Result, error)
		left bool // the old host's allocation could not be given up
	}{
		"evacuate": {evacuate, false}, "evacuate, with leftovers": {evacuate, true}, "unshelve": {unshelve, false},
	} {
		for _, hosts := range []int{2, 3, 4} {
			for _, order := range []func([]spawn.Candidate) []spawn.Candidate{nil, reversed} {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, worldOpts{model: raceModel(hosts, 2)})
					i := s.spawn(t, "gpu")
					if name == "unshelve" {
						settled(t, s.ops.ShelveOffload(t.Context(), i))
					} else {
						s.loseHost(t, i.Host)
					}
					if tt.left {
						s.guests.onCall("start", func() { s.full(t) })
					}
					first, err := tt.move(t.Context(), s, i, spawn.MoveOpts{})
					if first == nil || errors.Is(err, spawn.ErrLeftover) != tt.left {
						t.Fatalf("%s: got %v, %v", name, first, err)
					}
					s.guests.hook = nil
					s.cloud.Faults().Clear()
					runs, arqs := maps.Clone(s.guests.runs), s.cloud.Cyborg.ARQs()
					again, err := tt.move(t.Context(), s, i, spawn.MoveOpts{Order: order})
					if again != nil || err == nil || errors.Is(err, spawn.ErrLeftover) {
						t.Errorf("%s with %d hosts: got %v, %v; want a refusal", name, hosts, again, err)
					}
					if diff := cmp.Diff(runs, s.guests.runs); diff != "" {
						t.Errorf("%s with %d hosts: guests (-before +after):\n%s", name, hosts, diff)
					}
					if diff := cmp.Diff(arqs, s.cloud.Cyborg.ARQs()); diff != "" {
						t.Errorf("%s with %d hosts: ARQs (-before +after):\n%s", name, hosts, diff)
					}
				})
			}
		}
	}
}

// An agent that does not know the outcome of an evacuation deletes the instance with its old host, where it has no
// resources. The guest on the new host keeps its devices.
func TestADeletionWithTheOldHostLeavesTheGuestItsDevices(t *testing.T) {
	t.Parallel()
	for name, free := range deletions() {
		for _, answers := range []bool{true, false} { // the new host
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, worldOpts{})
				i := s.spawn(t, "gpu")
				s.loseHost(t, i.Host)
				result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
				settled(t, err)
				settled(t, s.cloud.StartHost(t.Context(), i.Host))
				delete(s.guests.saved, placeOf(i))
				s.guests.down = map[string]bool{result.Host: !answers}
				moved := spawn.InstanceOf(request("gpu"), result)
				before := s.usage(t, i)
				s.guests.calls = nil
				err = free(s.ops, t.Context(), i)
				if err == nil || errors.Is(err, spawn.ErrMoved) != answers || !strings.Contains(err.Error(), result.Host) {
					t.Errorf("%s: got %v, want a refusal that names host %s", name, err, result.Host)
				}
				if diff := cmp.Diff(before, s.usage(t, i)); diff != "" || slices.Contains(s.guests.calls, "destroy") {
					t.Errorf("%s: calls %v, usage changed (-before +after):\n%s", name, s.guests.calls, diff)
				}
				s.guests.down = nil
				s.running(t, moved, true)
				settled(t, s.ops.Delete(t.Context(), moved))
				s.sound(t)
			})
		}
	}
}

// Cyborg does not list the ARQs, so only Placement shows that the instance was moved.
func TestADeletionWithTheOldHostWhileCyborgIsDownLeavesTheAllocation(t *testing.T) {
	t.Parallel()
	for name, free := range deletions() {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "gpu")
			there := s.evacuated(t, i)
			settled(t, s.cloud.StartHost(t.Context(), i.Host))
			s.guests.down = nil
			before := s.usage(t, there)
			s.silence(t)
			s.refused(t, there, func() error { return free(s.ops, t.Context(), i) })
			checkDiff(t, "usage changed (-before +after)", before, s.usage(t, there))
			s.sound(t)
		})
	}
}
