package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// deleteTries is how often Cyborg is asked to delete what may have a mediated device.
const deleteTries = 3

// deleteEach deletes ARQs by their UUIDs and returns the errors of those that are left.
// Only its agent can remove a mediated device. While the agent is down Cyborg answers 500,
// keeps the ARQ Bound, and stops before the other ARQs of the request, however often it is
// asked. So, unless patiently, each ARQ that may have one is asked for alone, after the others, and
// only a few times; once an agent has not answered, those of its host are not asked for any more.
func (f *Flow) deleteEach(ctx context.Context, arqs []cyborgclient.ARQ, patiently bool) map[string]error {
	isAlone := func(arq cyborgclient.ARQ) bool { return !patiently && mayBeMediated(arq) }
	failed := f.deleteARQs(ctx, uuidsOf(slices.DeleteFunc(slices.Clone(arqs), isAlone)))
	ctx, cancel := context.WithTimeout(ctx, f.config.UnwindTimeout/unwindStages)
	defer cancel()
	silent := map[string]error{} // by host
	for _, arq := range arqs {
		err := failed[arq.UUID]
		if isAlone(arq) {
			if err = silent[arq.Hostname]; err == nil {
				err = f.tryDelete(ctx, func(ctx context.Context) error { return f.sendDelete(ctx, []string{arq.UUID}) })
			}
			if errors.Is(err, context.DeadlineExceeded) && silent[arq.Hostname] == nil {
				silent[arq.Hostname] = fmt.Errorf("skipped: the agent did not respond while deleting ARQ %s: %w", arq.UUID, err)
			}
		}
		if err != nil && mayBeMediated(arq) {
			failed[arq.UUID] = fmt.Errorf("its mediated device cannot be removed before Cyborg's agent of host %s is back: %w", arq.Hostname, err)
		}
	}
	return failed
}

// mayBeMediated reports whether the deletion of an ARQ needs the agent of its host: only
// a Bound one shows what it holds.
func mayBeMediated(arq cyborgclient.ARQ) bool {
	switch arq.State {
	case cyborgclient.StateInitial, cyborgclient.StateUnbound:
		return false
	case cyborgclient.StateBound:
		return arq.AttachHandleType == cyborgclient.HandleMDEV || arq.AttachHandleInfo["asked_type"] != nil
	}
	return true
}

// tryDelete asks Cyborg to delete ARQs that may have mediated devices: again after an
// answer, and not after none, because Cyborg waits a minute for an agent that is down.
func (f *Flow) tryDelete(ctx context.Context, try func(context.Context) error) error {
	for n := 1; ; n++ {
		limited, cancel := context.WithTimeout(ctx, f.config.UnwindTimeout/unwindStages/3)
		err := try(limited)
		answered := limited.Err() == nil
		cancel()
		if err == nil || !answered || n == deleteTries || sleep(ctx, retryPause<<n) != nil {
			return err
		}
	}
}

// stuckARQs are ARQs on hosts of before an evacuation, which Cyborg cannot delete.
type stuckARQs struct {
	arqs []cyborgclient.ARQ
	errs map[string]error // by UUID
}

func (s *stuckARQs) add(arq cyborgclient.ARQ, err error) {
	if s.errs == nil {
		s.errs = map[string]error{}
	}
	s.arqs, s.errs[arq.UUID] = append(slices.Clip(s.arqs), arq), err
}

// createSpares creates the ARQs that [Attempt.bind] begins with, if it has to bind beside
// ARQs that Cyborg cannot delete.
func (a *Attempt) createSpares(ctx context.Context) error {
	if len(a.stuck.arqs) == 0 || len(a.spares) > 0 {
		return nil
	}
	kept := a.ARQs
	a.ARQs = nil
	err := a.createOf(ctx, a.sources()[0])
	a.spares, a.ARQs = a.ARQs, kept
	return err
}

// bind sends the bindings, also for an instance that still has ARQs which Cyborg cannot
// delete.
func (a *Attempt) bind(ctx context.Context, bindings []cyborgclient.Binding) error {
	if len(a.stuck.arqs) == 0 {
		return a.flow.cyborg.BindARQs(ctx, bindings)
	}
	if err := a.createSpares(ctx); err != nil { // the agent has created the ARQs itself
		return err
	}
	err := a.flow.cyborg.BindAdditionalARQs(ctx, bindings, a.spares[0].UUID)
	if err != nil {
		err = fmt.Errorf("beside ARQ %s on host %s, which could not be deleted: %w", a.stuck.arqs[0].UUID, a.stuck.arqs[0].Hostname, err)
	}
	return err
}

// deleteSpares deletes the spares of a bind that Cyborg has accepted.
func (a *Attempt) deleteSpares(ctx context.Context) {
	if len(a.spares) == 0 {
		return
	}
	ctx, cancel := a.flow.detached(ctx)
	defer cancel()
	spares := uuidsOf(a.spares)
	a.cleanup.addARQs(spares, a.flow.deleteARQs(ctx, spares))
	a.flow.arqs.remove(spares...)
	a.spares = nil
}

// setStuckAside takes those ARQs out of what an unwinding has left that Cyborg keeps until the agent of their host
// answers.
func (a *Attempt) setStuckAside(ctx context.Context) {
	left := a.cleanup.arqs()
	if len(left) == 0 || a.guestStays {
		return
	}
	ctx, cancel := a.flow.detached(ctx)
	defer cancel()
	arqs, _ := a.flow.instanceARQs(ctx, a.Request.Instance) // without an answer nothing is set aside
	for _, arq := range arqs {
		if !slices.Contains(left, arq.UUID) || !mayBeMediated(arq) {
			continue
		}
		a.stuck.add(arq, a.cleanup.errorOf(LeftoverARQ, arq.UUID))
		a.cleanup.drop(LeftoverARQ, arq.UUID)
	}
}

// leaveStuck names the ARQs that Cyborg could not delete, and what else of another host is left.
func (a *Attempt) leaveStuck(c *cleanup) {
	a.nameStuck(c)
	for _, l := range a.cleanup.left {
		c.keep(l.Leftover, l.look)
	}
}

func (a *Attempt) nameStuck(c *cleanup) {
	c.addARQs(uuidsOf(a.stuck.arqs), a.stuck.errs)
}

// onHost leaves out ARQs of other hosts that are not expected: those of an instance that
// was evacuated, which Cyborg could not delete. One that is newer than those of the host is kept, because
// the instance was moved there. If there is no other, all are kept, so that the error names their host.
func onHost(arqs []cyborgclient.ARQ, host string, expected []string) []cyborgclient.ARQ {
	newest := newestOn(host, arqs)
	here := slices.DeleteFunc(slices.Clone(arqs), func(arq cyborgclient.ARQ) bool {
		return arq.Hostname != "" && host != "" && !sameHost(arq.Hostname, host) && !slices.Contains(expected, arq.UUID) && !arq.CreatedAt.After(newest.Time)
	})
	if len(here) == 0 {
		return arqs
	}
	return here
}
