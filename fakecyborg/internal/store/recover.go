package store

import (
	"slices"
	"time"
)

// Recovery is what an earlier process left to be done.
type Recovery struct {
	// Patches are PATCHes with binds in progress, or that Nova was not notified of.
	Patches []int64
	// Programming are those of Patches that program a bitstream; they wait for Leases.
	Programming []int64
	// Leases are the programmings that were interrupted.
	Leases []Lease
	// Orphans are handles whose mediated devices are to be removed.
	Orphans []string
}

// Recover ends the leases of an earlier process and returns what to undo and what to continue. Without
// such work it changes nothing.
func (t Tx) Recover(now time.Time) Recovery {
	var r Recovery
	for l := range t.s.leases.All(t.tx) {
		if l.Deployable != "" {
			r.Leases = append(r.Leases, l)
			continue
		}
		t.endLease(l)
		if t.recoverHandle(l, now) {
			r.Orphans = append(r.Orphans, l.Handle)
		}
	}
	for b := range t.s.binds.All(t.tx) {
		if !slices.Contains(r.Patches, b.Patch) {
			r.Patches = append(r.Patches, b.Patch)
		}
	}
	r.Patches = slices.DeleteFunc(r.Patches, func(patch int64) bool { return !t.recoverPatch(patch) })
	for _, patch := range r.Patches {
		programs := slices.ContainsFunc(t.Binds(patch), func(b Bind) bool { return b.Result == "" && b.Bitstream.Named() })
		if len(r.Leases) > 0 && programs {
			r.Programming = append(r.Programming, patch)
		}
	}
	return r
}

// recoverHandle frees a handle whose request is gone; orphaned reports that this needs an agent. A
// removal that was interrupted has failed.
func (t Tx) recoverHandle(l Lease, now time.Time) (orphaned bool) {
	h, ok := t.Handle(l.Handle)
	if !ok {
		return false
	}
	a, held := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
	switch {
	case !held && !h.NeedsAgent():
		t.releaseHandle(h.UUID)
	case held && l.Work == WorkRemove && a.State == BindStarted:
		a.State, a.UpdatedAt = BindFailed, now
		t.s.arqs.Put(t.tx, a)
	}
	return !held && h.NeedsAgent()
}

// recoverPatch fails the binds of a PATCH whose requests are no longer in them, and reports whether
// there is something left to do: binds without a notification that have ended are deleted.
func (t Tx) recoverPatch(patch int64) bool {
	binds, silent := t.Binds(patch), false
	for i, b := range binds {
		a, current := t.current(b)
		if b.Result == "" && (!current || a.State != BindStarted || a.Handle == "") {
			binds[i].Result = BindFailed
			t.s.binds.Put(t.tx, binds[i])
		}
		silent = silent || b.Silent || b.Result == BindStarted
	}
	if !silent {
		return true
	}
	left := false
	for _, b := range binds {
		if b.Result != "" {
			t.DropBind(b.ID)
			continue
		}
		b.Silent, left = true, true
		t.s.binds.Put(t.tx, b)
	}
	return left
}
