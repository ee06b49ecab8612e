package agent

import (
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// functions maps the functions of a host to their handles, to offer each function in one deployable only. The
// configuration of a driver may move a function to another deployable while the old one cannot be removed: it is in
// use, an image is being written to it, or Placement keeps it.
type functions map[driver.Address][]location

// location records which deployable lists a handle.
type location struct {
	place
	kind  string
	info  store.Info
	state store.HandleState
}

// place is a deployable, by the control path of its device and its name.
type place struct{ device, deployable string }

// functionsOf are the functions that the stored devices have.
func functionsOf(stored []storedDevice) functions {
	f := make(functions)
	for _, device := range stored {
		for _, d := range device.deployables {
			for _, h := range d.handles {
				f.add(driver.ControlPath{Info: h.Info.Map()}.Address(), location{place{device.key, d.Name}, h.Type, h.Info, h.State})
			}
		}
	}
	return f
}

func (f functions) add(at driver.Address, s location) {
	if s.kind == driver.HandlePCI || s.kind == driver.HandleMDEV {
		f[at] = append(f[at], s)
	}
}

// take adds the function of a handle to a deployable, and reports whether this is allowed: no other deployable has
// the function, and no request has it as another handle of the same deployable. Mediated devices share theirs.
func (f functions) take(to place, h driver.AttachHandle) bool {
	at, s := driver.ControlPath{Info: h.Info}.Address(), location{place: to, kind: h.Type, info: store.Info(h.Key())}
	known, taken := false, false
	for _, other := range f[at] {
		if other.place == to && other.info == s.info {
			if other.state != store.Free {
				return true
			}
			known = true
			continue
		}
		shared := other.kind == driver.HandleMDEV && h.Type == driver.HandleMDEV
		taken = taken || !shared && (other.place != to || other.state != store.Free)
	}
	if !taken && !known {
		f.add(at, s)
	}
	return !taken
}

// restrict removes from a change the handles whose functions are still listed elsewhere. A later report adds them
// when their functions are free. It reports whether anything remains to change.
func (f functions) restrict(rules layout.Rules, change *deviceChange) bool {
	all := true
	reported := withoutForeign(change.found.Deployables, func(d driver.Deployable, h driver.AttachHandle) bool {
		free := f.take(place{change.found.key, d.Name}, h)
		all = all && free
		return !free
	})
	if all {
		return true
	}
	change.found.Deployables = reported
	if change.stored == nil {
		return len(reported) > 0
	}
	change.deployables = nil
	return change.plan(rules)
}
