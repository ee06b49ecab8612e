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

// changeVGPU calls the agent to write or clear the vGPU type of a virtual function.
func (c *Conductor) changeVGPU(ctx context.Context, operation sim.OperationName, w store.HandleWork, change func(context.Context, driver.VGPUDriver, driver.VGPU) error) error {
	v, _, err := w.Handle.VGPU()
	if err == nil {
		err = c.callAgent(ctx, w.Host, w.Driver, operation, w.UUID, mdevLimit, func(ctx context.Context, d driver.Driver) error {
			agent, ok := d.(driver.VGPUDriver)
			if !ok {
				return fmt.Errorf("driver %s does not create vGPUs of virtual functions", d.Name())
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

// dropForeign removes from a discovery the handles that are in use without a request: the type of their function was
// not set by Cyborg. A device without other handles is then not new.
func (r *report) dropForeign(seen *discovery, stored []storedDevice) {
	used := usedHandles(stored)
	for i := range seen.devices {
		f := &seen.devices[i]
		f.Deployables = withoutForeign(f.Deployables, func(d driver.Deployable, h driver.AttachHandle) bool {
			return h.InUse && !used.has(d, h) && r.stillUsed(*f, d, h)
		})
	}
	seen.devices = slices.DeleteFunc(seen.devices, func(f found) bool { return len(f.Deployables) == 0 && !isStored(stored, f) })
}

// inUse are the handles that requests have, by deployable and key.
type inUse map[[2]string]bool

func usedHandles(stored []storedDevice) inUse {
	used := make(inUse)
	for _, device := range stored {
		for _, d := range device.deployables {
			for _, h := range d.handles {
				if h.InUse() {
					used[[2]string{d.Name, string(h.Info)}] = true
				}
			}
		}
	}
	return used
}

// has reports whether a request has a handle.
func (u inUse) has(d driver.Deployable, h driver.AttachHandle) bool {
	return u[[2]string{d.Name, h.Key()}]
}

// stillUsed checks again a handle that was in use when the hardware was read: its request may have been released
// since, or a request may have been bound.
func (r *report) stillUsed(f found, d driver.Deployable, h driver.AttachHandle) bool {
	at := slices.IndexFunc(r.host.Drivers, func(d driver.Driver) bool { return d.Name() == f.source })
	if v, isVGPU, err := h.VGPU(); at >= 0 && isVGPU && err == nil && currentVGPU(r.host.Drivers[at], v) == 0 {
		return false
	}
	return !usedHandles(r.stored()).has(d, h)
}

// withoutForeign are the deployables of a device without the handles that are not to be offered.
func withoutForeign(reported []driver.Deployable, foreign func(driver.Deployable, driver.AttachHandle) bool) []driver.Deployable {
	if !slices.ContainsFunc(reported, func(d driver.Deployable) bool {
		return slices.ContainsFunc(d.AttachHandles, func(h driver.AttachHandle) bool { return foreign(d, h) })
	}) {
		return reported
	}
	var own []driver.Deployable
	for _, d := range reported {
		d.AttachHandles = slices.DeleteFunc(slices.Clone(d.AttachHandles), func(h driver.AttachHandle) bool { return foreign(d, h) })
		d.NumAccelerators = min(d.NumAccelerators, len(d.AttachHandles))
		if len(d.AttachHandles) > 0 {
			own = append(own, d)
		}
	}
	return own
}
