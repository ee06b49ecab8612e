package fakecyborg

import (
	"context"
	"fmt"
	"maps"

	"github.com/gocyborg/gocyborg/driver"
)

// placeMemory puts the memory that the regions of a device share where it is to stand: on
// the provider of the device where there is one, else on the only region. On a flat host
// all is one provider, and the first region brings it there. Several regions without a
// provider above them have no place for it; it is left out, and the error says so.
func (st *state) placeMemory(d driver.Device) (driver.Device, error) {
	if len(d.Resources) == 0 || st.nests(d) {
		return d, nil
	}
	shared := d.Resources
	d.Resources = nil
	if len(d.Deployables) == 0 {
		return d, nil
	}
	if len(d.Deployables) > 1 && st.mode != ModeFlat {
		return d, fmt.Errorf("the %d providers of the device cannot share memory; placement_mode %q gives an FPGA one of its own", len(d.Deployables), ModeNested)
	}
	first := &d.Deployables[0] // the device is a clone
	memory := maps.Clone(shared)
	for class, mib := range first.Resources {
		memory[class] += mib
	}
	first.Resources = memory
	return d, nil
}

// taken counts the handles that are in use.
func (part *deployableRow) taken() int {
	n := 0
	for _, h := range part.handles {
		if h.taken {
			n++
		}
	}
	return n
}

// freeze takes what is free of a vanished device out of the offer, while requests hold
// the rest of it: capacity is lowered to what is bound, not below. When the device comes
// back, the report that sees it makes all of it anew.
func (r *reporting) freeze(ctx context.Context, d *deviceRow) {
	if r.s.cfg.UpstreamQuirks {
		return
	}
	r.s.mu.RLock()
	parts := make(map[*deployableRow]driver.Deployable)
	for _, part := range d.parts {
		spec := part.reportedSpec()
		if n := part.taken(); n > 0 && n < part.total {
			spec.DriverName, spec.NumAccelerators = part.driverName, n
			spec.Programmable = programmable(part)
			for _, h := range part.handles {
				if h.taken {
					spec.AttachHandles = append(spec.AttachHandles, h.spec())
				}
			}
			parts[part] = spec
		}
	}
	r.s.mu.RUnlock()
	for _, part := range d.parts {
		if spec, ok := parts[part]; ok {
			r.samePart(ctx, part, spec)
		}
	}
}

// programmable is what a driver said of a region.
func programmable(part *deployableRow) *bool {
	if !part.fixed {
		return nil
	}
	no := false
	return &no
}
