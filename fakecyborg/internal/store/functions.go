package store

import (
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// functions are function traits, joined by spaces. With a slice, handles could not be compared, and there are
// hundreds of thousands of them, nearly all without functions.
type functions string

// List returns the traits, nil for none.
func (f functions) List() []string {
	if f == "" {
		return nil
	}
	return strings.Fields(string(f))
}

// Are reports whether the functions equal a list.
func (f functions) Are(list []string) bool { return string(f) == strings.Join(list, " ") }

// functionsOf returns the functions of a reported handle. Upstream does not read them.
func (t Tx) functionsOf(h driver.AttachHandle) functions {
	if t.s.cfg.Quirks {
		return ""
	}
	return functions(strings.Join(h.Functions, " "))
}

// setHandleFunctions stores the functions of a deployable's handles after an image was written.
func (t Tx) setHandleFunctions(deployable string, reported []driver.AttachHandle) {
	for h := range t.Handles(deployable) {
		i := slices.IndexFunc(reported, func(r driver.AttachHandle) bool { return Info(r.Key()) == h.Info })
		changed := h
		if changed.Functions = ""; i >= 0 {
			changed.Functions = t.functionsOf(reported[i])
		}
		if changed != h {
			t.s.handles.Put(t.tx, changed)
		}
	}
}

// differ reports whether the handles of a deployable lead to different functions.
func (t Tx) differ(deployable string) bool {
	for h := range t.Handles(deployable) {
		if h.Functions != "" {
			return true
		}
	}
	return false
}

// wantedFunctions returns the functions of a region that a request names, by ID, by name or by a required trait.
func (t Tx) wantedFunctions(a ARQ, d Deployable) (wanted []string) {
	id := ""
	switch ref, _ := t.RequestedBitstream(a); ref.By {
	case ByFunctionID:
		id = ref.Value
	case ByFunctionName:
		if d.Region.has(ref.By, ref.Value) {
			id = d.Region.Image.Get(ByFunctionID)
		}
	}
	for _, trait := range functionTraits(t.Reported(d)) {
		if required, _ := t.group(a).get(PrefixTrait + trait); required == "required" || driver.NamesFunction(trait, id) {
			wanted = append(wanted, trait)
		}
	}
	return wanted
}

// leads reports whether a handle leads to functions.
func (h Handle) leads(wanted []string) bool {
	has := h.Functions.List()
	return !slices.ContainsFunc(wanted, func(trait string) bool { return !slices.Contains(has, trait) })
}

// serves reports whether a request gets its functions with a handle: the handle leads to them, all handles of the
// region do, or another handle of the instance for the same group does.
func (t Tx) serves(a ARQ, h Handle, wanted []string) bool {
	if len(wanted) == 0 || h.leads(wanted) || !t.differ(h.Deployable) {
		return true
	}
	for other := range t.s.arqByInstance.All(t.tx, a.Instance) {
		held, _ := t.Handle(other.Handle)
		if other.UUID != a.UUID && other.Profile == a.Profile && other.Group == a.Group && held.Deployable == h.Deployable && held.leads(wanted) {
			return true
		}
	}
	return false
}

// handleFor returns the first free handle of a deployable that gives the request its functions. First is the first
// free handle.
func (t Tx) handleFor(a ARQ, d Deployable, first Handle) (Handle, error) {
	wanted := t.wantedFunctions(a, d)
	if t.serves(a, first, wanted) {
		return first, nil
	}
	for h := range t.Handles(d.UUID) {
		if h.State == Free && h.leads(wanted) {
			return h, nil
		}
	}
	return Handle{}, Refuse(Conflict, "deployable %s has no free attach handle that leads to function %s", d.Name, strings.Join(wanted, " and "))
}

// takeFunction assigns another handle to a request whose region was written, if its own handle does not lead to its
// function.
func (t Tx) takeFunction(a *ARQ) error {
	old, _ := t.Handle(a.Handle)
	d, err := t.Deployable(old.Deployable)
	if err != nil {
		return nil // it vanished; its request keeps the handle
	}
	h, err := t.handleFor(*a, d, old)
	if err != nil || h.UUID == old.UUID {
		return err
	}
	t.release(old)
	t.give(h, a)
	return nil
}
