package spawn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// The domain of a guest that did not start is deleted on its host. If the hypervisor cannot define the domain, the
// guest does not start there.
func TestAGuestThatDoesNotStartIsTriedOnTheNextHost(t *testing.T) {
	t.Parallel()
	for _, fails := range []string{"start", "define"} {
		bubble(t, fails, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			s.guests.fail[fails] = 1
			result, err := s.starts().Run(t.Context(), request("mixed"))
			settled(t, err)
			for at := range s.guests.saved {
				if at.host != result.Host {
					t.Errorf("host %s has the domain of instance %s, which is on %s", at.host, at.instance, result.Host)
				}
			}
			s.running(t, spawn.InstanceOf(request("mixed"), result), true)
			s.sound(t)
		})
	}
}

// AddDevices attaches devices to a running instance: it creates its mediated devices, and neither starts nor destroys
// the guest, even after a failure.
func TestAddDevicesLeavesTheGuestAlone(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(context.Context, *spawn.Attempt) error{
		"success": nil,
		"failure": func(context.Context, *spawn.Attempt) error { return errHook },
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaMdevModel()})
			i := s.spawn(t, "")
			req := request("vgpu")
			req.Domain, req.Hooks.Prepare = []byte(s.guests.saved[placeOf(i)]), prepare
			result, err := s.starts().AddDevices(t.Context(), req)
			s.running(t, i, true)
			for _, call := range s.guests.calls {
				if call != "create mdev" && call != "remove mdev" {
					t.Errorf("call %q of the hypervisor", call)
				}
			}
			if err != nil {
				if !errors.Is(err, errHook) || len(s.definitions(t)) > 0 {
					t.Errorf("error %v with definitions %v", err, s.definitions(t))
				}
				s.sound(t)
				return
			}
			if defined := s.definitions(t); len(defined) != 1 || defined[0] != result.ARQs[0].AttachHandleUUID {
				t.Errorf("definitions %v, want the device of %v", defined, result.ARQs)
			}
			i.ARQs = uuidsOf(result.ARQs)
			settled(t, s.ops.HardReboot(t.Context(), i, result.Domain))
			s.sound(t)
			settled(t, s.guests.Destroy(t.Context(), i))
			settled(t, s.guests.Define(t.Context(), i, req.Domain))
			settled(t, s.starts().ReleaseDevices(t.Context(), i.UUID))
			if left := s.definitions(t); len(left) > 0 {
				t.Errorf("definitions %v after ReleaseDevices", left)
			}
			s.sound(t)
		})
	}
}
