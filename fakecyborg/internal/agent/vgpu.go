package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// changeVGPU has the agent write or clear the vGPU type of a virtual function.
func (c *Conductor) changeVGPU(ctx context.Context, operation sim.OperationName, w store.HandleWork, change func(context.Context, driver.VGPUDriver, driver.VGPU) error) error {
	v, _, err := w.Handle.VGPU()
	if err == nil {
		err = c.callAgent(ctx, w.Host, w.Driver, operation, w.UUID, mdevLimit, func(ctx context.Context, d driver.Driver) error {
			agent, ok := d.(driver.VGPUDriver)
			if !ok {
				return fmt.Errorf("driver %s makes no vGPUs of virtual functions", d.Name())
			}
			return logVGPU(ctx, d, v, operation == fault.VGPUSet, func() error { return change(ctx, agent, v) })
		})
	}
	if err != nil {
		return store.Refuse(store.Internal, "%s: host %s, virtual function %s: %v", operation, w.Host, v.Function, err)
	}
	return nil
}

// logVGPU calls do and logs whether the type of a virtual function was written or cleared.
func logVGPU(ctx context.Context, d driver.Driver, v driver.VGPU, set bool, do func() error) error {
	before := currentVGPU(d, v)
	err := do()
	if after := currentVGPU(d, v); after != before {
		change := sim.Change{Kind: "vgpu", ID: v.Function.String(), What: "type " + strconv.Itoa(v.Type), Action: sim.Deleted}
		if set {
			change.Action = sim.Created
		}
		simhttp.ChangeLogOf(ctx).Add(change)
	}
	return err
}

// currentVGPU is the type that a virtual function has, 0 if that cannot be known.
func currentVGPU(d driver.Driver, v driver.VGPU) int {
	in, ok := d.(driver.TreeDriver)
	if !ok {
		return 0
	}
	current, _ := driver.CurrentVGPU(driver.NewView(in.Tree()), v.Function)
	return current
}

// withoutForeign are the deployables of a report without the handles that a driver reports in use and
// that no request has: somebody else has set their type.
func withoutForeign(reported []driver.Deployable, stored *storedDevice) []driver.Deployable {
	if !slices.ContainsFunc(reported, func(d driver.Deployable) bool { return slices.ContainsFunc(d.AttachHandles, isUsed) }) {
		return reported
	}
	var own []driver.Deployable
	for _, d := range reported {
		n := len(d.AttachHandles)
		d.AttachHandles = slices.DeleteFunc(slices.Clone(d.AttachHandles), func(h driver.AttachHandle) bool {
			return h.InUse && !stored.uses(d.Name, store.Info(h.Key()))
		})
		d.NumAccelerators -= n - len(d.AttachHandles)
		if len(d.AttachHandles) > 0 {
			own = append(own, d)
		}
	}
	return own
}

func isUsed(h driver.AttachHandle) bool { return h.InUse }

// uses reports whether a handle of a deployable is in use.
func (d *storedDevice) uses(deployable string, handle store.Info) bool {
	return d != nil && slices.ContainsFunc(d.deployables, func(s storedDeployable) bool {
		return s.Name == deployable && slices.ContainsFunc(s.handles, func(h store.Handle) bool { return h.InUse && h.Info == handle })
	})
}
