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

// Recovered is an operation of a process that was killed, or of one that lost its right to the instance.
type Recovered struct {
	Instance string
	// HandedOver says that another process continues it: see [Flow.TakeBack]. Nothing was done.
	HandedOver bool
	// Undone lists what was released, as [Error.Undone].
	Undone []string
	// Leftovers is what could not be released, and what may still appear.
	Leftovers []Leftover
	// Err is why the journal could not be read.
	Err error
}

// Recovery is the result of [Flow.Recover].
type Recovery struct {
	mu         sync.Mutex
	operations []Recovered
	running    sync.WaitGroup
}

// Operations returns what is known now of each operation, by instance.
func (r *Recovery) Operations() []Recovered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.operations)
}

// Wait waits until nothing can appear any longer, [LateWindow] after the start, and what failed was tried again. A new operation
// on an instance ends the search for an earlier one; it does not wait.
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

// Recover reads what the store of [WithJournal] has of operations that no process has ended, and that no process runs now, and
// undoes or finishes them:
//
//   - A spawn, an unshelve, an evacuation, devices that were added, a vGPU that was taken over: what was made is undone, guest first,
//     unless the operation had committed it.
//   - A deletion, a release: it is finished, if it had begun. After an evacuation was undone the instance lacks the ARQs whose
//     deletion had begun.
//   - Of a region that was programmed the content is not known: it is named, and not changed.
//   - What was handed over is not touched: the other process has it.
//
// It returns at once what is certain, already undone or finished. The rest is looked for in the background: see [Recovery.Wait]. Call
// it when the agent starts. The flow's own client of Cyborg is used, and the hypervisor of [WithHypervisor], without which guests stay,
// with their devices.
//
// One thing no journal can know: which ARQs a create has made whose answer was not recorded. They are unbound and hold no device. With
// Config.ExclusiveProject they are found and deleted; else a [LeftoverCreate] names them, and [Flow.Reconcile] frees them.
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

// recoveredAtOnce is how many operations are recovered at the same time: a service that is down takes long to answer for each.
const recoveredAtOnce = 16

func (r *Recovery) set(n int, o Recovered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations[n] = o
}

// recoverOne undoes or finishes an operation once, and goes on in the background.
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

// open begins an operation on an instance. What another process has left of one is recovered first.
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

// TakeBack undoes what this process has handed over, if the other one is known not to have it. The error is an [*Error] if something
// remains, and matches ErrRequest if nothing was handed over for the instance.
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

// recovering is the remover of an operation of another process.
func (f *Flow) recovering(journal *ledger.Journal) *remover {
	i := Instance{UUID: journal.Instance}
	for _, e := range journal.Effects() {
		if e.Amount != nil {
			i.ProjectID = e.Amount.Project
		}
	}
	m := &remover{flow: f.asOwn(), journal: journal, record: f.newRecorder(i.UUID, ""), instance: i, mdevs: f.mdevCreator()}
	m.removeNovaMdev = func(context.Context, string) error { return &ledger.Final{Err: errNoRelease} }
	return m
}

// Why a recovery leaves something.
var (
	errRegion    = errors.New("what was programmed is not known: program the region again")
	errNoRelease = errors.New("it is released by a TakeOver that is called again with OwnershipChange.Mdev")
)

// recover takes away what was made, and what was to be removed: of an evacuation the ARQs on the old host, which were recorded when
// their deletion began, and the rest if nothing was made or all of that is the instance's.
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
