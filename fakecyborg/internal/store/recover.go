package store

import (
	"slices"
	"time"
)

// Recovery is the unfinished work of an earlier process.
type Recovery struct {
	// Patches are PATCHes with binds in progress, or about which Nova was not notified.
	Patches []int64
	// Programming are the Patches that program a bitstream; they wait for Leases.
	Programming []int64
	// Leases are interrupted writes of bitstreams.
	Leases []Lease
	// Orphans are handles whose mediated devices must be removed.
	Orphans []string
}

// Recover ends the leases of an earlier process and returns what to undo and what to continue. If there is nothing,
// it changes nothing.
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
		if b.Result == "" && b.Bitstream.Named() && !slices.Contains(r.Programming, b.Patch) {
			r.Programming = append(r.Programming, b.Patch)
		}
	}
	return r
}

// recoverHandle frees a handle whose request was deleted; orphaned reports that this needs an agent. An interrupted
// removal has failed.
func (t Tx) recoverHandle(l Lease, now time.Time) (orphaned bool) {
	h, ok := t.Handle(l.Handle)
	if !ok {
		return false
	}
	a, held := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
	switch {
	case !held && !h.needsAgent():
		t.release(h)
	case held && l.Work == WorkRemove && a.State == BindStarted:
		a.State, a.UpdatedAt = BindFailed, now
		t.s.arqs.Put(t.tx, a)
	}
	return !held && h.needsAgent()
}
