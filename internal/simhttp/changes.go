package simhttp

import (
	"context"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// maxKeptChanges is how many changes of all exchanges a recorder keeps.
const maxKeptChanges = 100000

type changeLogKey struct{}

// ChangeLogOf returns the log of the exchange that is being served under ctx, or nil if
// nothing records it.
func ChangeLogOf(ctx context.Context) *tables.ChangeLog {
	log, _ := ctx.Value(changeLogKey{}).(*tables.ChangeLog)
	return log
}

// WithoutChangeLog is ctx for work that belongs to no exchange, or to one of another
// service.
func WithoutChangeLog(ctx context.Context) context.Context {
	if ChangeLogOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, changeLogKey{}, (*tables.ChangeLog)(nil))
}

// withChangeLog gives an exchange a log. There is none if nothing would read it, and the
// log of an exchange that this one serves is out of reach.
func (s *Service) withChangeLog(ctx context.Context) (context.Context, *tables.ChangeLog) {
	if s.Observe == nil && recorderOf(ctx) == nil {
		return WithoutChangeLog(ctx), nil
	}
	log := new(tables.ChangeLog)
	return context.WithValue(ctx, changeLogKey{}, log), log
}

// trimChanges drops the changes of the oldest exchanges when there are too many in all. It
// is called under the lock.
func (r *Recorder) trimChanges(added int) {
	if r.changes += added; r.changes <= maxKeptChanges {
		return
	}
	r.changes = 0
	for i := range r.exchanges {
		r.changes += len(r.exchanges[i].Changes)
	}
	for i := 0; i < len(r.exchanges) && r.changes > maxKeptChanges/2; i++ {
		e := &r.exchanges[i].Exchange
		if n := len(e.Changes); n > 1 {
			e.Changes = []sim.Change{tables.MoreChanges(n)}
			r.changes -= n - 1
		}
	}
}
