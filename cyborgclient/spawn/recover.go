package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// Recovered is an operation of a process that was killed, or that lost its lock of the instance.
type Recovered struct {
	Instance string
	// HandedOver says that another process continues the operation: see [Flow.TakeBack]. Nothing was done.
	HandedOver bool
	// Undone lists what was released, as [Error.Undone].
	Undone []string
	// Leftovers lists what could not be released, and what may still appear.
	Leftovers []Leftover
	// Err is the error of a journal that could not be read.
	Err error
}

// Recovery is the result of [Flow.Recover].
type Recovery struct {
	mu         sync.Mutex
	operations []Recovered
	running    sync.WaitGroup
}

// Operations returns the present state of each operation, by instance.
func (r *Recovery) Operations() []Recovered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.operations)
}

// Wait waits until nothing more can appear, [LateWindow] after the start, and failed cleanups were retried. A new
// operation on an instance does not wait for this; it ends the search for the effects of the earlier one.
func (r *Recovery) Wait(ctx context.Context) ([]Recovered, error) {
	done := make(chan struct{})
	go func() {
		r.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return r.Operations(), nil
	case <-ctx.Done():
		return r.Operations(), contextError(ctx)
	}
}

// Recover reads the operations in the store of [WithJournal] that were not finished and that no process is running,
// and undoes or finishes them:
//
//   - A spawn, an unshelve, an evacuation, added devices, a vGPU that was taken over: everything that was
//     created is undone, guest first, unless the operation had committed it.
//   - A delete or a release is finished if it had begun. After an evacuation was undone the instance lacks
//     the ARQs whose deletion had begun.
//   - A region that was being programmed has unknown content: it is reported, and not changed.
//   - An attempt that was handed over is not touched: the other process continues it.
//
// It returns when all known effects were undone or finished once. Requests with an unknown outcome are followed up in
// the background: see [Recovery.Wait]. Call Recover when the agent starts. It uses the flow's own client of Cyborg
// and the hypervisor of [WithHypervisor]; without a hypervisor, guests and their devices are kept.
//
// A journal cannot show which ARQs a create has made whose response was not recorded. They are unbound and hold no
// device. With Config.ExclusiveProject they are found and deleted; otherwise a [LeftoverCreate] describes them, and
// [Flow.Reconcile] frees them.
func (f *Flow) Recover(ctx context.Context) (*Recovery, error) {
	r := &Recovery{}
	if f.store == nil {
		return r, nil
	}
	instances, err := f.store.Unfinished(ctx)
	if err != nil {
		return r, fmt.Errorf("spawn: recover: %w", err)
	}
	r.operations = make([]Recovered, len(instances))
	slots := make(chan struct{}, recoveredAtOnce)
	var first sync.WaitGroup
	for n, instance := range instances {
		slots <- struct{}{}
		first.Go(func() {
			defer func() { <-slots }()
			f.recoverOne(ctx, r, n, instance)
		})
	}
	first.Wait()
	return r, nil
}

// recoveredAtOnce is the number of operations that are recovered in parallel, because a service that is down takes
// long to respond.
const recoveredAtOnce = 16

func (r *Recovery) set(n int, o Recovered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations[n] = o
}

// recoverOne undoes or finishes an operation once, and continues in the background.
func (f *Flow) recoverOne(ctx context.Context, r *Recovery, n int, instance string) {
	journal, err := f.book.Open(ctx, instance)
	switch {
	case err != nil:
		r.set(n, Recovered{Instance: instance, Err: err})
		return
	case journal.Mark() == ledger.HandedOver:
		r.set(n, Recovered{Instance: instance, HandedOver: true})
		journal.Leave()
		return
	case journal.Mark() == ledger.Ended:
		journal.Continue()
	}
	m := f.recovering(journal)
	m.recover(ctx, 0)
	r.set(n, m.recovered())
	if len(leftoversOf(journal)) == 0 {
		journal.End()
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	journal.Yield(cancel)
	r.running.Go(func() {
		defer cancel()
		m.recover(ctx, m.patience())
		r.set(n, m.recovered())
		journal.End()
	})
}

// open begins an operation on an instance. An unfinished operation of another process is recovered first.
func (f *Flow) open(ctx context.Context, instance string) (*ledger.Journal, error) {
	journal, err := f.book.Open(ctx, instance)
	if err != nil || !journal.Unfinished() {
		return journal, err
	}
	m := f.recovering(journal)
	m.recover(ctx, m.patience())
	journal.End()
	return f.book.Open(ctx, instance)
}

// TakeBack undoes an attempt that this process has handed over, if the other process is known not to have it. The
// error is an [*Error] if something remains, and matches ErrRequest if nothing was handed over for the instance.
func (f *Flow) TakeBack(ctx context.Context, instance string) error {
	if err := checkUUID("instance", instance); err != nil {
		return err
	}
	journal, err := f.book.Open(ctx, instance)
	if err != nil {
		return err
	}
	defer journal.End()
	if journal.Mark() != ledger.HandedOver {
		return fmt.Errorf("%w: instance %s was not handed over", ErrRequest, instance)
	}
	journal.Continue()
	ctx, cancel := f.detached(ctx)
	defer cancel()
	return f.recovering(journal).cleanUp(ctx, "not everything that was handed over could be released", nil)
}

// recovering returns the remover for an operation of another process.
func (f *Flow) recovering(journal *ledger.Journal) *remover {
	i := Instance{UUID: journal.Instance}
	for _, e := range journal.Effects() {
		if e.Amount != nil {
			i.ProjectID = e.Amount.Project
		}
	}
	m := f.asOwn().newRemover(journal, i)
	m.removeNovaMdev = func(context.Context, string) error { return &ledger.Final{Err: errNoRelease} }
	return m
}

// Why a recovery does not clean up a resource.
var (
	errRegion    = errors.New("the content of the region is unknown: program it again")
	errNoRelease = errors.New("call TakeOver again with OwnershipChange.Mdev to release it")
)

// recover removes what the operation created, and finishes removals. For an evacuation these are the ARQs on the old
// host, which were recorded when their deletion began; the rest is removed only if the operation claimed nothing or
// had already been committed.
func (r *remover) recover(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, r.flow.config.UnwindTimeout)
	defer cancel()
	isMade := len(r.journal.Effects(ledger.Claim)) > 0
	ctx, end := r.record.open(ctx, StepUnwind)
	r.undoFor(ctx, patience, r.undoers(), func(e *ledger.Effect) bool { return e.State != ledger.Found || e.Kind == ledger.ARQ || !isMade })
	end(decision(len(r.journal.Removed()), len(leftoversOf(r.journal))), nil)
}

func (r *remover) recovered() Recovered {
	return Recovered{Instance: r.instance.UUID, Undone: namesOf(r.journal.Removed()), Leftovers: leftoversOf(r.journal)}
}
