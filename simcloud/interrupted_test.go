package simcloud_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A process ends when the device of a bind has been made and the bind not. The next one takes the device for its own, whether
// it then is bound or deleted.
func TestABindIsContinuedAfterItsDeviceWasMade(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nvidia-vgpu-vf", "nvidia-vgpu", "mdev"} {
		g := givenBy(t, name)
		synctest.Test(t, func(t *testing.T) {
			m := oneHost(g)
			m.Cyborg.AsyncBind = true
			first := simcloud.Run(t, m)
			after := fault.Rule{Action: fault.Delay, When: fault.After, Delay: time.Hour}
			vgpu, made := after, after
			vgpu.Operation, made.Operation = fault.VGPUSet, fault.MdevCreate
			must(t, first.Faults().Set(vgpu, made))
			arqs, err := first.Cyborg.CreateARQs(name, first.ProjectID("admin"))
			must(t, err)
			must(t, first.Cyborg.Bind(t.Context(), fakecyborg.Binding{
				ARQ: arqs[0].UUID, Host: "cn0", Provider: first.Cyborg.Deployables()[0].ProviderUUID, Instance: instance(1),
			}))
			synctest.Wait()
			second := closing(t)(simcloud.FromState(t.Context(), dump(t, first)))
			synctest.Wait()
			if got := second.Cyborg.ARQs()[0]; got.State != fakecyborg.StateBound {
				t.Errorf("%s: %s, %s", name, got.State, got.Failure)
			}
			if err := second.Cyborg.DeleteARQs(t.Context(), arqs[0].UUID); err != nil {
				t.Error(err)
			}
			second.CheckNoLeaks(t)
		})
	}
}
