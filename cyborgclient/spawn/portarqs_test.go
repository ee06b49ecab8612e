package spawn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
)

const mac1, mac2 = "52:54:00:1e:59:c3", "52:54:00:1e:59:c4"

// Neutron clears the binding profile of a port that is unbound, or another writer replaces it. The device still
// belongs to the port: it is neither added as a host device nor lost. If two ports may have it, the guest is not
// changed.
func TestAPortWithoutItsARQKeepsItsDevice(t *testing.T) {
	t.Parallel()
	const stale = "0b1d6c4e-6a9f-4d1c-8a55-2f1b6f0a9d77"
	cleared, other := map[string]any{"trusted": true}, map[string]any{"arq_uuid": stale}
	for name, tt := range map[string]struct {
		flavor  string
		ports   []spawn.Port
		profile map[string]any
		want    string // the error; empty: none
	}{
		"with a MAC":               {"gpu", []spawn.Port{acceleratedPort(port1, "nic", mac1)}, cleared, ""},
		"without a MAC":            {"gpu", []spawn.Port{acceleratedPort(port1, "nic", "")}, cleared, ""},
		"no flavor's device":       {"", []spawn.Port{acceleratedPort(port1, "nic", mac1)}, cleared, ""},
		"another ARQ":              {"gpu", []spawn.Port{acceleratedPort(port1, "nic", mac1)}, other, ""},
		"two ports without a MAC":  {"", []spawn.Port{acceleratedPort(port1, "nic", ""), acceleratedPort(port2, "nic", "")}, cleared, ""},
		"two ports with MACs":      {"", []spawn.Port{acceleratedPort(port1, "nic", mac1), acceleratedPort(port2, "nic", mac2)}, cleared, port1},
		"the flavor's profile too": {"nic", []spawn.Port{acceleratedPort(port1, "nic", "")}, cleared, port1},
	} {
		for how, run := range map[string]func(*site, context.Context, spawn.Instance) error{
			"start":       func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.Start(ctx, i) },
			"hard reboot": func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.HardReboot(ctx, i, nil) },
			"regenerated": func(s *site, ctx context.Context, i spawn.Instance) error {
				return s.ops.HardReboot(ctx, i, domainxml.NewDomain(domainxml.DomainOpts{Name: "regenerated"}))
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, worldOpts{model: portModel()})
				i, err := s.launch(t.Context(), tt.flavor, tt.ports...)
				settled(t, err)
				settled(t, s.ops.Stop(t.Context(), i))
				saved := s.guests.saved[placeOf(i)]
				for n := range i.Ports {
					i.Ports[n].BindingProfile = tt.profile
				}
				err = run(s, t.Context(), i)
				if tt.want != "" {
					if !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("%s, %s: got %v, want ErrRequest with port %s", name, how, err, tt.want)
					}
					if diff := cmp.Diff(saved, s.guests.saved[placeOf(i)]); diff != "" {
						t.Errorf("%s, %s: domain (-before +after):\n%s", name, how, diff)
					}
					s.running(t, i, false)
					return
				}
				if err != nil {
					t.Fatalf("%s, %s: %v", name, how, err)
				}
				for _, kind := range []string{"<hostdev ", "<interface "} {
					if got, want := strings.Count(s.guests.saved[placeOf(i)], kind), strings.Count(saved, kind); got != want {
						t.Errorf("%s, %s: %d of %s, want %d", name, how, got, kind, want)
					}
				}
				s.running(t, i, true)
			})
		}
	}
}

// Binding profiles that contradict the ARQs would turn the port's device into a host device, and another device into
// the port's interface.
func TestAPortThatNamesTheARQOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ ports, wrong, of int }{ // of: the port whose ARQ it names, or -1 for the flavor's
		"of another port": {2, 1, 0},
		"of the flavor":   {1, 0, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: portModel()})
			i := s.spawn(t, "gpu", []spawn.Port{acceleratedPort(port1, "nic", mac1), acceleratedPort(port2, "nic", mac2)}[:tt.ports]...)
			var arq any
			for _, a := range s.arqs(t, i) {
				if a.DeviceProfileName == "gpu" {
					arq = a.UUID
				}
			}
			if tt.of >= 0 {
				arq = i.Ports[tt.of].BindingProfile["arq_uuid"]
			}
			i.Ports[tt.wrong].BindingProfile = map[string]any{"arq_uuid": arq}
			before := s.guests.runs[placeOf(i)]
			err := s.ops.HardReboot(t.Context(), i, nil)
			if !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), arq.(string)) || !strings.Contains(err.Error(), i.Ports[tt.wrong].UUID) {
				t.Errorf("%s: got %v, want ErrRequest with the port and the ARQ", name, err)
			}
			checkDiff(t, name+": domain (-before +after)", before, s.guests.runs[placeOf(i)])
			settled(t, s.ops.Delete(t.Context(), i)) // which takes all that is the instance's
		})
	}
}

// While the guest is off, the ARQ of a port gets another virtual function, and another instance gets its old one.
func TestAGuestStartsWithTheInterfaceThatItsPortHasNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: portModel()})
		i := s.spawn(t, "gpu", acceleratedPort(port1, "nic", mac1))
		var before, gpu cyborgclient.ARQ
		for _, arq := range s.arqs(t, i) {
			if arq.DeviceProfileName == "nic" {
				before = arq
			} else {
				gpu = arq
			}
		}
		settled(t, s.ops.Stop(t.Context(), i))
		settled(t, s.cyborg.UnbindARQs(t.Context(), i.ARQs)) // all of them, because Cyborg binds the ARQs of an instance together
		others, err := s.cloud.Cyborg.CreateARQs("nic", s.cloud.ProjectID("admin"))
		settled(t, err)
		settled(t, s.cyborg.BindARQs(t.Context(), []cyborgclient.Binding{{
			ARQ: others[0].UUID, Host: i.Host, DeviceRP: before.DeviceRPUUID, Instance: "bbbbbbbb-0000-4000-8000-00000000bbbb"}}))
		synctest.Wait()
		var bindings []cyborgclient.Binding
		for _, arq := range i.ARQs {
			rp := before.DeviceRPUUID
			if arq != before.UUID {
				rp = gpu.DeviceRPUUID
			}
			bindings = append(bindings, cyborgclient.Binding{ARQ: arq, Host: i.Host, DeviceRP: rp, Instance: i.UUID})
		}
		settled(t, s.cyborg.BindARQs(t.Context(), bindings))
		synctest.Wait()
		settled(t, s.ops.Start(t.Context(), i))
		domain := s.guests.runs[placeOf(i)]
		if n := strings.Count(domain, "<interface "); n != 1 {
			theirs, err := s.cyborg.GetARQ(t.Context(), others[0].UUID)
			t.Errorf("the guest has %d interfaces, want 1; another instance has %v (%v):\n%s", n, theirs.AttachHandleInfo, err, domain)
		}
	})
}
