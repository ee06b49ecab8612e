package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Why something is a suspect.
var (
	errReplyLost   = errors.New("the reply was lost")
	errLostCreate  = errors.New("possibly created by another client")
	errChanged     = errors.New("another client has changed it")
	errOthersClaim = errors.New("the instance was claimed by another client, or still has an ARQ from a failed attempt")
)

// clockSkew is the difference to allow between the clocks of a cloud's services: the Date header of a response and
// the creation time of an ARQ may come from two hosts.
const clockSkew = 5*time.Minute + 2*time.Second

// createUndoer looks for the ARQs of a create whose response was lost. An ARQ does not name its creator, so if other
// clients use the project, none of them can be deleted safely: they are only reported. With Config.ExclusiveProject
// the ARQs that no operation of the flow knows are the lost ones. They are added to the journal, up to the number
// that the create makes. There may be fewer, because Cyborg creates them one after the other.
type createUndoer struct {
	*remover
	seen map[string]int // ARQ -> the newest effect when it was first seen
}

// Undo implements [ledger.Undoer].
func (u *createUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	for _, e := range effects {
		found, err := u.candidates(ctx, e)
		isExclusive := u.flow.config.ExclusiveProject && u.flow.cyborg.owner().ProjectID != ""
		switch {
		case err != nil:
			u.journal.Settle(e, ledger.Unknown, err)
		case !isExclusive:
			u.name(found)
			u.journal.Settle(e, ledger.Foreign, errReplyLost)
		case u.adopt(e, found):
			u.journal.Settle(e, ledger.Undone, nil)
		default:
			u.journal.Settle(e, ledger.Unknown, nil)
		}
	}
}

// candidates lists the ARQs that may be the result of the create. They are in the project of the token, which may not
// be the project of the instance.
func (u *createUndoer) candidates(ctx context.Context, e *ledger.Effect) ([]cyborgclient.ARQ, error) {
	all, now, err := u.flow.listAllARQs(ctx)
	if err != nil {
		return nil, err
	}
	origin := e.Origin
	if origin.Since.IsZero() {
		u.journal.Change(e, func() { origin.Since = now.Add(-time.Since(origin.Began) - clockSkew).Truncate(time.Second) })
	}
	return slices.DeleteFunc(all, func(arq cyborgclient.ARQ) bool {
		return arq.State != cyborgclient.StateInitial || arq.InstanceUUID != "" || arq.DeviceProfileName != e.ID ||
			arq.ProjectID != "" && arq.ProjectID != origin.Project ||
			!arq.CreatedAt.IsZero() && arq.CreatedAt.Before(origin.Since) || u.flow.book.Knows(arq.UUID)
	}), nil
}

// adopt adds the ARQs that belong to no other operation to the journal, and reports whether all were found. An ARQ
// that may be the result of another create of this process is checked again next time.
func (u *createUndoer) adopt(e *ledger.Effect, found []cyborgclient.ARQ) bool {
	newest := u.flow.book.Newest() // after the list, which may show what this one made
	for _, arq := range found {
		if _, known := u.seen[arq.UUID]; !known {
			u.seen[arq.UUID] = newest
		}
		if e.Origin.Missing > 0 && arq.ProjectID != "" && !u.flow.book.Creating(u.seen[arq.UUID]) {
			u.journal.Adopt(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq})
			u.journal.Change(e, func() { e.Origin.Missing-- })
		}
	}
	return e.Origin.Missing <= 0
}

// maxNamed bounds the number of ARQs reported along with their create: on a cloud with many agents most belong to
// others.
const maxNamed = 16

// name reports the newest ARQs that may be the result of the create.
func (u *createUndoer) name(found []cyborgclient.ARQ) {
	for _, arq := range found[max(0, len(found)-maxNamed):] { // oldest first
		if u.journal.Find(ledger.ARQ, arq.UUID) == nil {
			u.journal.Note(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq}, errLostCreate)
		}
	}
}

// arqCount returns how many ARQs one create makes, or -1 for a profile that step 2 rejects.
func arqCount(profile requestspec.Profile) int {
	total := 0
	for _, group := range profile.Groups {
		n, err := requestspec.ARQCount(group)
		if err != nil {
			return -1
		}
		total += n
	}
	return total
}

// arqUndoer deletes ARQs by UUID, never by instance: a delayed request by instance would delete ARQs that the
// instance got later. ARQs that could not be deleted in one request are deleted one by one, because Cyborg may wait
// for the agent of one of them and not process the next.
//
// Only its agent can remove a mediated device. While the agent is down Cyborg keeps the ARQ Bound, however often the
// request is repeated. An impatient remover deletes each ARQ that may have a mediated device in a request of its own,
// after the others, and makes only a few attempts. Once an agent has not responded, the other ARQs of its host are
// skipped.
type arqUndoer struct{ *remover }

// Undo implements [ledger.Undoer].
func (u arqUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	effects = u.allowed(ctx, effects)
	var together, alone []*ledger.Effect
	for _, e := range effects {
		if e.Err != nil || e.Guard == ledger.Unbound || u.impatient && mayBeMediated(*e.ARQ) {
			alone = append(alone, e)
		} else {
			together = append(together, e)
		}
	}
	u.delete(ctx, together)
	silent := map[string]error{} // by host
	for n, e := range alone {
		if err := silent[e.ARQ.Hostname]; err != nil && mayBeMediated(*e.ARQ) {
			u.journal.Settle(e, ledger.Left, u.explained(e, err))
			continue
		}
		u.deleteAlone(ctx, e, len(alone)-n)
		if errors.Is(e.Err, context.DeadlineExceeded) && mayBeMediated(*e.ARQ) {
			silent[e.ARQ.Hostname] = fmt.Errorf("skipped: the agent did not respond while deleting ARQ %s: %w", e.ID, e.Err)
		}
	}
}

// deleteAlone deletes one ARQ, with an equal share of the remaining time.
func (u arqUndoer) deleteAlone(ctx context.Context, e *ledger.Effect, of int) {
	if u.impatient && mayBeMediated(*e.ARQ) {
		u.remove(ctx, []*ledger.Effect{e}, func(ctx context.Context, uuids []string) error {
			err := u.flow.tryFew(ctx, func(ctx context.Context) error { return u.flow.sendDelete(ctx, uuids) })
			if err != nil {
				err = &ledger.Final{Err: err}
			}
			return err
		})
		return
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(of))
		defer cancel()
	}
	u.delete(ctx, []*ledger.Effect{e})
}

func (u arqUndoer) delete(ctx context.Context, effects []*ledger.Effect) {
	if len(effects) > 0 {
		u.remove(ctx, effects, u.flow.sendDelete)
	}
}

func (u arqUndoer) remove(ctx context.Context, effects []*ledger.Effect, send func(ctx context.Context, uuids []string) error) {
	u.journal.Remove(ctx, effects, func(ctx context.Context) map[*ledger.Effect]error {
		if effects[0].Guard == ledger.Unbound {
			ctx = cyborgclient.WithoutServiceToken(ctx)
		}
		if u.flow.config.Compat.UnbindFirst {
			_ = u.flow.cyborg.UnbindARQs(ctx, idsOf(effects)) // if it fails, the deletion unbinds
		}
		err := send(ctx, idsOf(effects))
		partial, _ := errors.AsType[*cyborgclient.DeleteError](err)
		_, isFinal := errors.AsType[*ledger.Final](err)
		failed := map[*ledger.Effect]error{}
		for _, e := range effects {
			reason := err
			if partial != nil {
				reason = partial.Failed[e.ID]
			}
			switch {
			case reason == nil:
			case isFinal, errors.Is(reason, cyborgclient.ErrServiceToken):
				failed[e] = &ledger.Final{Err: u.explained(e, reason)}
			default:
				failed[e] = u.explained(e, reason)
			}
		}
		return failed
	})
}

// explained adds to the error why the ARQ of a mediated device remains.
func (u arqUndoer) explained(e *ledger.Effect, err error) error {
	if !mayBeMediated(*e.ARQ) {
		return err
	}
	return fmt.Errorf("its mediated device cannot be removed before Cyborg's agent of host %s is back: %w", e.ARQ.Hostname, err)
}

// Look reports whether Cyborg shows the ARQ.
func (u arqUndoer) Look(ctx context.Context, e *ledger.Effect) (bool, error) {
	arq, err := u.flow.findARQ(ctx, e.ID)
	return arq != nil, err
}

// allowed leaves out ARQs that another client handed over, unless Cyborg shows that they belong to the instance or to
// no instance. ARQs of other instances are not deleted. A 404 from Cyborg does not prove that an ARQ was deleted,
// because Cyborg may hide it.
func (u arqUndoer) allowed(ctx context.Context, effects []*ledger.Effect) []*ledger.Effect {
	isHanded := func(e *ledger.Effect) bool { return e.Guard == ledger.Handed }
	if !slices.ContainsFunc(effects, isHanded) {
		return effects
	}
	var allowed, absent []*ledger.Effect
	for _, e := range effects {
		if !isHanded(e) {
			allowed = append(allowed, e)
			continue
		}
		arq, err := u.flow.findARQ(ctx, e.ID)
		switch {
		case err != nil:
			u.journal.Settle(e, ledger.Left, err)
		case arq == nil:
			absent = append(absent, e)
		case mayOwn(u.instance.UUID, *arq):
			u.see([]cyborgclient.ARQ{*arq})
			if err := u.removeDefinition(ctx, e); err != nil {
				u.journal.Settle(e, ledger.Left, err)
				continue
			}
			allowed = append(allowed, e)
		default:
			u.journal.Settle(e, ledger.Foreign, fmt.Errorf("not deleted: it belongs to instance %s", arq.InstanceUUID))
		}
	}
	if len(absent) == 0 {
		return allowed
	}
	hidden := u.flow.mayHide(ctx, u.instance)
	for _, e := range absent {
		if hidden != nil {
			u.journal.Settle(e, ledger.Left, &ledger.Final{Err: hidden})
		} else { // a replica of Cyborg's database may lag behind
			allowed = append(allowed, e)
		}
	}
	return allowed
}

// removeDefinition removes the definition of the mediated device of an ARQ whose attach handle was not known before.
func (u arqUndoer) removeDefinition(ctx context.Context, e *ledger.Effect) error {
	if u.journal.Find(ledger.Mdev, e.ID) == nil {
		u.takeMdev(e)
	}
	mdev := u.journal.Find(ledger.Mdev, e.ID)
	if mdev == nil || !mdev.Pending() {
		return nil
	}
	mdevUndoer(u).Undo(ctx, []*ledger.Effect{mdev})
	if mdev.Pending() {
		return mdev.Err
	}
	return nil
}

// see stores ARQs of the journal as Cyborg now shows them. An ARQ of the instance, or of no instance, may be deleted.
func (r *remover) see(arqs []cyborgclient.ARQ) {
	for _, arq := range arqs {
		e := r.journal.Find(ledger.ARQ, arq.UUID)
		if e == nil || arq.State == "" || !mayOwn(r.instance.UUID, arq) {
			continue
		}
		r.journal.Change(e, func() {
			e.ARQ = &arq
			if e.Guard == ledger.Handed {
				e.Guard = ledger.Own
			}
		})
	}
}

// mayOwn reports whether an ARQ belongs to the instance, or to no instance yet.
func mayOwn(instance string, arq cyborgclient.ARQ) bool {
	return arq.InstanceUUID == "" || arq.InstanceUUID == instance
}

// fewTries is the number of attempts of a request that needs the host of an ARQ.
const fewTries = 3

// tryFew retries after an error response, but not after a timeout: Cyborg waits a minute for an agent that is down.
func (f *Flow) tryFew(ctx context.Context, try func(context.Context) error) error {
	for n := 1; ; n++ {
		limited, cancel := context.WithTimeout(ctx, f.config.UnwindTimeout/patience/3)
		err := try(limited)
		answered := limited.Err() == nil
		cancel()
		if err == nil || !answered || n == fewTries || sleep(ctx, ledger.FirstPause<<n) != nil {
			return err
		}
	}
}

// mayBeMediated reports whether deleting an ARQ may need the agent of its host. Only a Bound ARQ shows its handle.
func mayBeMediated(arq cyborgclient.ARQ) bool {
	switch arq.State {
	case cyborgclient.StateInitial, cyborgclient.StateUnbound:
		return false
	case cyborgclient.StateBound:
		return arq.AttachHandleType == cyborgclient.HandleMDEV || arq.AttachHandleInfo["asked_type"] != nil
	}
	return arq.Hostname != ""
}

// sendDelete sends one DELETE. If the user's token has expired, it is repeated with the flow's own token.
func (f *Flow) sendDelete(ctx context.Context, uuids []string) error {
	for sender := f; ; sender = f.asOwn() {
		err := sender.cyborg.DeleteARQs(ctx, uuids)
		if !errors.Is(err, cyborgclient.ErrUnauthorized) || sender.cyborg == f.own || !f.asOwn().shows(ctx, uuids) {
			return err
		}
	}
}

// shows reports whether Cyborg shows the ARQs to the flow. A 404 may mean that Cyborg hides an ARQ.
func (f *Flow) shows(ctx context.Context, uuids []string) bool {
	return !slices.ContainsFunc(uuids, func(uuid string) bool {
		arq, err := f.findARQ(ctx, uuid)
		return arq == nil || err != nil
	})
}

// findARQ returns an ARQ, or nil if Cyborg answers 404.
func (f *Flow) findARQ(ctx context.Context, uuid string) (*cyborgclient.ARQ, error) {
	arq, err := f.cyborg.GetARQ(ctx, uuid)
	if cyborgclient.IsMissing(err) {
		return nil, nil
	}
	return arq, err
}

// instanceARQs lists the ARQs of an instance.
func (f *Flow) instanceARQs(ctx context.Context, instance string) ([]cyborgclient.ARQ, error) {
	return retry(ctx, f, func(ctx context.Context) ([]cyborgclient.ARQ, error) {
		return f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
	})
}

// listAllARQs lists the ARQs of all instances, and returns the time of the server's clock.
func (f *Flow) listAllARQs(ctx context.Context) (arqs []cyborgclient.ARQ, now time.Time, err error) {
	var call cyborgclient.Call
	ctx = cyborgclient.Observe(ctx, func(c cyborgclient.Call) { call = c })
	arqs, err = f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{})
	if now = call.Date; now.IsZero() {
		now = time.Now()
	}
	return arqs, now, err
}

// retry repeats a read until it succeeds, is forbidden or times out. It returns the last result.
func retry[T any](ctx context.Context, f *Flow, read func(context.Context) (T, error)) (T, error) {
	limit := f.config.UnwindTimeout / patience
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	for pause := ledger.FirstPause; ; pause = min(2*pause, ledger.MaxPause) {
		limited, cancel := context.WithTimeout(ctx, limit/3)
		result, err := read(limited)
		cancel()
		isLate := time.Since(began) >= LateWindow
		if err == nil || errors.Is(err, cyborgclient.ErrForbidden) || errors.Is(err, cyborgclient.ErrUnauthorized) && isLate {
			return result, err
		}
		reportRetry(ctx, pause, err)
		if sleep(ctx, pause) != nil {
			return result, err
		}
	}
}
