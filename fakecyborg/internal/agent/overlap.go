package agent

import (
	"cmp"
	"context"
	"net/http"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
)

// Upstream reads what a PATCH or DELETE of requests is about in one transaction and writes in others, so that requests that
// overlap do not see each other (cyborg/api/controllers/v2/arqs.py, cyborg/objects/ext_arq.py). Here a bind reads and writes in
// one transaction. With the quirks it reads in one and writes in another, which is refused if the request has changed since, as
// MariaDB with snapshot isolation does.

// Overlap is the rule that acts on the write of a PATCH or DELETE, after its check. Delay lets time pass between the two, and the
// write goes on as if nothing had changed, as with databases without snapshot isolation. Status refuses the write as MariaDB
// refuses the later of two that overlap. The zero rule does nothing.
type Overlap struct {
	c    *Conductor
	rule fault.Rule
}

// Overlap returns the rule that acts on the write of a request: on the first ARQ that it names, or on the instance.
func (c *Conductor) Overlap(subject string) Overlap {
	rule, _ := c.cfg.Faults.Decide(fault.ARQWrite, subject)
	return Overlap{c, rule}
}

// Open reports whether the rule acts between check and write.
func (o Overlap) Open() bool { return o.rule.Action != "" && !o.rule.Applied() }

// Before is called between check and write. With an error nothing is written.
func (o Overlap) Before(ctx context.Context) error {
	if !o.Open() {
		return nil
	}
	return o.apply(ctx)
}

// After is called once everything is written.
func (o Overlap) After(ctx context.Context) error {
	if !o.rule.Applied() {
		return nil
	}
	return o.apply(ctx)
}

// apply waits, also when the client does not, or returns the error of the database.
func (o Overlap) apply(ctx context.Context) error {
	if o.rule.Action != fault.Delay {
		return changedSinceRead(store.RefusalKind(cmp.Or(o.rule.Status, http.StatusInternalServerError)))
	}
	ctx, end := o.c.work.Detach(ctx)
	defer end()
	return o.c.cfg.Clock.Wait(ctx, o.rule.Delay)
}

// changedSinceRead is the error of MariaDB with snapshot isolation for the later of two overlapping writes of a row.
func changedSinceRead(kind store.RefusalKind) error {
	return store.Refuse(kind, `(pymysql.err.OperationalError) (1020, "Record has changed since last read in table 'extended_accelerator_requests'")`)
}

// readARQ is a request as a PATCH has read it in an earlier transaction.
type readARQ struct {
	arq store.ARQ
	err error // the check's
}

// readAll reads all requests of a PATCH, before any is written.
func (c *Conductor) readAll(caller Caller, patches []Patch) {
	c.db.View(func(tx store.Tx) {
		for i := range patches {
			arq, err := c.check(tx, caller, patches, i)
			patches[i].read = &readARQ{arq, err}
		}
	})
}

// check reads the i-th request of a PATCH, and refuses a bind in a state that allows none. Only the first bind of a
// PATCH checks which requests the instance has already.
func (c *Conductor) check(tx store.Tx, caller Caller, patches []Patch, i int) (store.ARQ, error) {
	if i == 0 && !patches[i].Unbind {
		if err := c.checkUnused(tx, caller, patches); err != nil {
			return store.ARQ{}, err
		}
	}
	a, err := tx.ARQ(patches[i].ARQ, caller.Scope)
	if err != nil || patches[i].Unbind {
		return a, err
	}
	if a.UUID != patches[i].ARQ { // SQL finds the request, and Python not its patch
		return a, store.Refuse(store.Uncoded, "'%s'", a.UUID)
	}
	if shown := c.ShownState(tx, c.now())(a); shown == StateUnknown {
		return a, store.WrongState(shown, a.UUID)
	}
	return a, store.CheckBindable(a)
}

// checkAgain returns the request that a bind writes to, after an earlier transaction has read and checked it. With a
// rule the bind overwrites later changes by other requests.
func (c *Conductor) checkAgain(tx store.Tx, caller Caller, p Patch, read readARQ) (store.ARQ, error) {
	if read.err != nil {
		return store.ARQ{}, read.err
	}
	a, err := tx.ARQ(p.ARQ, caller.Scope)
	switch {
	case err != nil || a.Attempt == read.arq.Attempt:
		return a, err
	case p.read == nil:
		return a, changedSinceRead(store.Internal)
	}
	return tx.Overwritten(a, read.arq), nil
}
