package simcloud_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// An administrator's evacuation makes and binds an accelerator request in the administrator's name. Nova's
// calls for the owner find it: a hard reboot has its devices, and a deletion leaves nothing. Upstream hides it.
func TestNovaFindsWhatAnEvacuationMade(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			model := simcloud.DefaultModel()
			model.Cyborg.UpstreamQuirks = quirks
			c := simcloud.Run(t, model)
			client := func(user string, opts ...cyborgclient.Option) *cyborgclient.Client {
				provider, err := c.ProviderClient(t.Context(), user)
				must(t, err)
				made, err := cyborgclient.New(provider, opts...)
				must(t, err)
				return made
			}
			nova := cyborgclient.WithServiceProvider(c.ServiceProvider(t))
			admin, forOwner, owner := client("admin", nova), client("demo", nova), client("demo")
			free := func() (n int) {
				for _, h := range c.Cyborg.AttachHandles() {
					if !h.InUse {
						n++
					}
				}
				return n
			}
			before := free()

			gpus := c.Cyborg.Deployables()
			gpu := gpus[slices.IndexFunc(gpus, func(d fakecyborg.StoredDeployable) bool { return d.ResourceClass() == "PGPU" })]
			const instance = "aaaaaaaa-0000-4000-8000-000000000001"
			arqs, err := admin.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
			must(t, err)
			must(t, admin.BindARQs(t.Context(), []cyborgclient.Binding{{ARQ: arqs[0].UUID, Host: gpu.Hostname, DeviceRP: gpu.ProviderUUID, Instance: instance}}))
			want := 1
			if quirks {
				want = 0
			}
			for who, seen := range map[*cyborgclient.Client]int{forOwner: want, owner: 0} {
				list, err := who.ListARQs(t.Context(), cyborgclient.ListARQsOpts{Instance: instance})
				if err != nil || len(list) != seen {
					t.Errorf("quirks %t: %v, %v; want %d requests", quirks, list, err, seen)
				}
			}
			must(t, forOwner.DeleteARQsForInstance(t.Context(), instance))
			if got := before - free(); got != 1-want {
				t.Errorf("quirks %t: %d handles are still in use", quirks, got)
			}
		})
	}
}
