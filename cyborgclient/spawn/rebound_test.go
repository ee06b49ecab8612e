package spawn_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestAGuestStartsWithTheDeviceThatItsRequestHasNow binds the ARQ of a guest that is off to another GPU, as an
// operator does who replaces a broken one.
func TestAGuestStartsWithTheDeviceThatItsRequestHasNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := simcloud.ScaleModel(1, 2)
		s := newSite(t, worldOpts{model: &model})
		i := s.spawn(t, "gpu")
		settled(t, s.ops.Stop(t.Context(), i))
		before := s.arqs(t, i)[0]
		settled(t, s.cyborg.UnbindARQs(t.Context(), i.ARQs))
		for _, d := range s.cloud.Cyborg.Deployables() {
			if d.ProviderUUID == before.DeviceRPUUID {
				continue
			}
			err := s.cyborg.BindARQs(t.Context(), []cyborgclient.Binding{{ARQ: i.ARQs[0], Host: i.Host, DeviceRP: d.ProviderUUID, Instance: i.UUID}})
			settled(t, err)
		}
		settled(t, s.ops.Start(t.Context(), i))
		devices, err := domainxml.Read([]byte(s.guests.runs[placeOf(i)]))
		if err != nil || len(devices) != 1 {
			t.Fatalf("the guest has %v, %v, want one device", devices, err)
		}
		want, _, err := domainxml.Hostdevs([]domainxml.Handle{spawn.HandleOf(s.arqs(t, i)[0])})
		settled(t, err)
		checkDiff(t, "device of the guest (-want +got)", want[0].String(), devices[0].String())
	})
}

// After a TakeOver the ARQ of the guest, which is off, gets another vGPU, and another instance gets the old one.
func TestAfterATakeOverAGuestStartsWithTheDeviceThatItsRequestHasNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: novaVGPUModel()})
		i := novaVGPU(t, s)
		c := change(i)
		_, err := s.ops.TakeOver(t.Context(), c)
		settled(t, err)
		i.Flavor = c.Flavor
		before := s.arqs(t, i)[0]
		settled(t, s.ops.Stop(t.Context(), i))
		settled(t, s.cyborg.UnbindARQs(t.Context(), []string{before.UUID}))
		others, err := s.cloud.Cyborg.CreateARQs("cyborg-vgpu", s.cloud.ProjectID("admin"))
		settled(t, err)
		for _, b := range []cyborgclient.Binding{
			{ARQ: others[0].UUID, Host: i.Host, DeviceRP: before.DeviceRPUUID, Instance: "bbbbbbbb-0000-4000-8000-00000000bbbb"},
			{ARQ: before.UUID, Host: i.Host, DeviceRP: before.DeviceRPUUID, Instance: i.UUID},
		} {
			settled(t, s.cyborg.BindARQs(t.Context(), []cyborgclient.Binding{b}))
			synctest.Wait()
		}
		settled(t, s.ops.Start(t.Context(), i))
		mine := s.arqs(t, i)[0].AttachHandleUUID
		if mine == before.AttachHandleUUID {
			t.Fatal("the request has the device that it had")
		}
		devices, err := domainxml.Read([]byte(s.guests.runs[placeOf(i)]))
		settled(t, err)
		devices = slices.DeleteFunc(devices, func(d domainxml.Hostdev) bool { return d.MDEV == "" })
		if len(devices) != 1 || devices[0].MDEV != mine {
			t.Errorf("the guest has %v, want mdev %s only", devices, mine)
		}
	})
}

// A caller may not know the devices that were attached to a running instance.
func TestAGuestKeepsTheDevicesThatTheCallerDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(context.Context, *spawn.Operations, spawn.Instance) error{
		"soft reboot": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error { return o.SoftReboot(ctx, i) },
		"hard reboot": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error {
			return o.HardReboot(ctx, i, nil)
		},
		"stop and start": func(ctx context.Context, o *spawn.Operations, i spawn.Instance) error {
			return errors.Join(o.Stop(ctx, i), o.Start(ctx, i))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.attached(t)
			i.ARQs = nil
			settled(t, start(t.Context(), s.ops, i))
			devices, err := domainxml.Read([]byte(s.guests.runs[placeOf(i)]))
			settled(t, err)
			if len(devices) != 1 {
				t.Errorf("the guest has %v, want its device", devices)
			}
		})
	}
}
