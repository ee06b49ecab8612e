package spawn_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestAGuestStartsWithTheDeviceThatItsRequestHasNow binds the request of a guest that is off to another GPU, as an
// operator does who replaces a broken one.
func TestAGuestStartsWithTheDeviceThatItsRequestHasNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := simcloud.ScaleModel(1, 2)
		s := newSite(t, worldOpts{model: &model})
		i := s.spawn(t, "gpu")
		if err := s.ops.Stop(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		before := s.arqs(t, i)[0]
		if err := s.cyborg.UnbindARQs(t.Context(), i.ARQs); err != nil {
			t.Fatal(err)
		}
		for _, d := range s.cloud.Cyborg.Deployables() {
			if d.ProviderUUID == before.DeviceRPUUID {
				continue
			}
			err := s.cyborg.BindARQs(t.Context(), []cyborgclient.Binding{{ARQ: i.ARQs[0], Host: i.Host, DeviceRP: d.ProviderUUID, Instance: i.UUID}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.ops.Start(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		devices, err := domainxml.Read([]byte(s.guests.runs[placeOf(i)]))
		if err != nil || len(devices) != 1 {
			t.Fatalf("the guest has %v, %v, want one device", devices, err)
		}
		want, _, err := domainxml.Hostdevs([]domainxml.Handle{spawn.HandleOf(s.arqs(t, i)[0])})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[0].String(), devices[0].String()); diff != "" {
			t.Errorf("device of the guest (-want +got):\n%s", diff)
		}
	})
}
