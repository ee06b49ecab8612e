package spawn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
)

// attached returns a running instance of a plain flavor that got its device while it ran.
func (s *site) attached(t *testing.T) spawn.Instance {
	t.Helper()
	i := s.spawn(t, "")
	req := request("gpu")
	req.Domain = []byte(s.guests.saved[placeOf(i)])
	result, err := s.flow.AddDevices(t.Context(), req)
	settled(t, err)
	settled(t, s.guests.Destroy(t.Context(), i))
	settled(t, s.guests.Define(t.Context(), i, result.Domain))
	settled(t, s.guests.Start(t.Context(), i))
	i.ARQs = []string{result.ARQs[0].UUID}
	s.sound(t)
	return i
}

func TestAnInstanceKeepsTheDeviceThatItGotWhileItRan(t *testing.T) {
	t.Parallel()
	fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "fresh", UUID: instance})
	for name, run := range map[string]func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error{
		"hard reboot": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error {
			return o.HardReboot(ctx, i, fresh)
		},
		"rebuild": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error {
			return o.Rebuild(ctx, i, fresh)
		},
		"soft reboot": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error { return o.SoftReboot(ctx, i) },
		"rescue": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error {
			_, err := o.Rescue(ctx, i, fresh)
			return errors.Join(err, o.Unrescue(ctx, i, fresh))
		},
		"shelve": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error {
			err := o.Shelve(ctx, i)
			_, unshelveErr := o.Unshelve(ctx, i, spawn.MoveOpts{})
			return errors.Join(err, unshelveErr)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.attached(t)
			settled(t, run(t.Context(), s.ops, i))
			s.running(t, i, true)
			s.sound(t)
		})
	}
}

// On the new host it would not get a device, because its flavor has no device profile.
func TestAnInstanceIsNotMovedWithoutTheDeviceThatItGotWhileItRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.attached(t)
		for _, op := range []spawn.Operation{spawn.OpLiveMigrate, spawn.OpMigrate, spawn.OpSuspend} {
			blocked(t, spawn.Permit(op, i), 400, forbiddenAccelerators)
		}
		blocked(t, spawn.PermitResize(i, plainFlavor()), 400, forbiddenAccelerators)
		settled(t, s.ops.ShelveOffload(t.Context(), i))
		i.Host = ""
		refusal := s.unchanged(t, i, func() error {
			_, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
			return err
		})
		if !errors.Is(refusal, spawn.ErrRequest) || !strings.Contains(refusal.Error(), i.ARQs[0]) {
			t.Errorf("got %v, want ErrRequest with the ARQ", refusal)
		}
		i.Flavor = flavor("gpu")
		result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
		if err != nil || len(result.ARQs) != 1 {
			t.Errorf("with another flavor: got %v, %v; want one ARQ", result, err)
		}
		s.sound(t)
	})
}

// The process ended after the claim. The next one would claim a second device, and the first one, which has no ARQ,
// would never be released.
func TestADeviceThatACrashLeftARunningInstanceIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "")
		plain := s.held(i.UUID)
		req := request("gpu")
		req.Domain = []byte(s.guests.saved[placeOf(i)])
		a, err := s.flow.BeginAdding(t.Context(), req)
		settled(t, err)
		settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim))
		s.restart(t)
		claimed := s.held(i.UUID)
		if _, err := s.flow.AddDevices(t.Context(), req); !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), "ReleaseDevices") {
			t.Errorf("got %v, want ErrRequest that names ReleaseDevices", err)
		}
		checkDiff(t, "held (-before +after)", claimed, s.held(i.UUID))
		settled(t, s.flow.ReleaseDevices(t.Context(), i.UUID))
		checkDiff(t, "held after the release (-want +got)", plain, s.held(i.UUID))
		result, err := s.flow.AddDevices(t.Context(), req)
		settled(t, err)
		if held := s.held(i.UUID); len(held) != len(plain)+1 || len(result.ARQs) != 1 {
			t.Errorf("held %v with %d ARQs", held, len(result.ARQs))
		}
	})
}
