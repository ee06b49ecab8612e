package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// DefaultMinAge is how old an unbound ARQ must be before [Flow.Reconcile]
// takes it for a leftover.
const DefaultMinAge = 15 * time.Minute

// ReconcileOpts says what is alive, and how far a reconciliation may go.
type ReconcileOpts struct {
	// Living reports whether an instance exists, also one that is just being
	// built by somebody else. It is asked once per instance; an error ends the
	// reconciliation before anything is freed.
	Living func(ctx context.Context, instance string) (bool, error)
	// MinAge is the age from which an ARQ that is Initial or Unbound and belongs to
	// no instance is a leftover; 0 means DefaultMinAge. Younger ones may be between
	// creation and bind.
	MinAge time.Duration
	// DryRun finds and frees nothing.
	DryRun bool
}

// Orphan is something that no living instance owns.
type Orphan struct {
	// Kind is "arq" or "allocation".
	Kind string `json:"kind"`
	// ID is the UUID of the ARQ, or of the consumer that holds the allocation.
	ID string `json:"id"`
	// Instance is the instance that it belonged to; empty for an ARQ that was
	// never bound.
	Instance string `json:"instance,omitempty"`
	// Reason tells why it is an orphan.
	Reason string `json:"reason"`
	// Freed reports that it is gone; never in a dry run.
	Freed bool `json:"freed"`
	// Err is why it could not be freed.
	Err error `json:"-"`
}

// Reconcile finds what earlier crashes of an agent left and frees it: ARQs of
// instances that are not living, ARQs of no instance that are Initial or Unbound
// for longer than MinAge, and allocations of consumers that are not living and hold a provider of
// Cyborg's. Handles and mediated devices go with their ARQs. Attempts of this
// flow that are under way are left alone.
//
// It sees what its token sees: that of an admin, the ARQs of all projects.
// Everything is looked up before anything is freed. The error joins what could
// not be freed and matches ErrLeftover then; the orphans are returned with it.
func (f *Flow) Reconcile(ctx context.Context, opts ReconcileOpts) ([]Orphan, error) {
	if opts.Living == nil {
		return nil, fmt.Errorf("%w: reconcile: nobody tells which instances are living", ErrConfig)
	}
	if opts.MinAge == 0 {
		opts.MinAge = DefaultMinAge
	}
	r := &reconciliation{flow: f, opts: opts, living: map[string]bool{}}
	orphans, err := r.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("spawn: reconcile: %w", err)
	}
	if opts.DryRun {
		return orphans, nil
	}
	return orphans, r.free(ctx, orphans)
}

type reconciliation struct {
	flow   *Flow
	opts   ReconcileOpts
	living map[string]bool // what Living answered
}

// find lists the orphans, ARQs before the allocations that they draw on.
func (r *reconciliation) find(ctx context.Context) ([]Orphan, error) {
	arqs, err := r.orphanARQs(ctx)
	if err != nil {
		return nil, err
	}
	consumers, err := r.consumers(ctx)
	if err != nil {
		return nil, err
	}
	for _, consumer := range consumers {
		gone, err := r.gone(ctx, consumer)
		if err != nil {
			return nil, err
		}
		if gone {
			arqs = append(arqs, Orphan{
				Kind: "allocation", ID: consumer, Instance: consumer, Reason: "the consumer is no living instance and holds a provider of Cyborg's",
			})
		}
	}
	return arqs, nil
}

func (r *reconciliation) orphanARQs(ctx context.Context) ([]Orphan, error) {
	var listed cyborgclient.Call
	arqs, err := r.flow.cyborg.ListARQs(
		cyborgclient.Observe(ctx, func(call cyborgclient.Call) { listed = call }), cyborgclient.ListARQsOpts{})
	if err != nil {
		return nil, err
	}
	now := listed.Date // ages are by the server's clock
	if now.IsZero() {
		now = time.Now()
	}
	var orphans []Orphan
	for _, arq := range arqs {
		reason, err := r.orphanReason(ctx, arq, now)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			orphans = append(orphans, Orphan{Kind: "arq", ID: arq.UUID, Instance: arq.InstanceUUID, Reason: reason})
		}
	}
	return orphans, nil
}

func (r *reconciliation) orphanReason(ctx context.Context, arq cyborgclient.ARQ, now time.Time) (string, error) {
	switch {
	case r.flow.holds(arq.UUID):
		return "", nil
	case arq.InstanceUUID != "":
		gone, err := r.gone(ctx, arq.InstanceUUID)
		if gone {
			return fmt.Sprintf("%s, and instance %s is not living", arq.State, arq.InstanceUUID), err
		}
		return "", err
	case arq.State == cyborgclient.StateInitial && r.old(arq.CreatedAt, now):
		return fmt.Sprintf("Initial since %s", arq.CreatedAt.UTC().Format(time.RFC3339)), nil
	case arq.State == cyborgclient.StateUnbound && r.old(arq.UpdatedAt, now): // between unbind and the next bind
		return fmt.Sprintf("Unbound since %s", arq.UpdatedAt.UTC().Format(time.RFC3339)), nil
	}
	return "", nil
}

func (r *reconciliation) old(since cyborgclient.Time, now time.Time) bool {
	return !since.IsZero() && now.Sub(since.Time) >= r.opts.MinAge
}

// gone reports whether an instance is neither living nor being given its
// accelerators by this flow.
func (r *reconciliation) gone(ctx context.Context, instance string) (bool, error) {
	if r.flow.busyWith(instance) {
		return false, nil
	}
	living, known := r.living[instance]
	if !known {
		var err error
		if living, err = r.opts.Living(ctx, instance); err != nil {
			return false, fmt.Errorf("is instance %s living: %w", instance, err)
		}
		r.living[instance] = living
	}
	return !living, nil
}

// consumers lists, sorted, who holds something of a provider of Cyborg's.
func (r *reconciliation) consumers(ctx context.Context) ([]string, error) {
	deployables, err := r.flow.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, deployable := range deployables {
		consumers, err := r.flow.placement.consumersOf(ctx, deployable.RPUUID)
		if err != nil {
			return nil, err
		}
		for _, consumer := range consumers {
			found[consumer] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// consumersOf treats an unknown provider as one that nobody uses: Cyborg may
// just have removed it.
func (p placement) consumersOf(ctx context.Context, provider string) ([]string, error) {
	var consumers []string
	err := p.call(ctx, "GET resource_providers allocations", provider, http.StatusOK, func() error {
		answer, err := resourceproviders.GetAllocations(ctx, p.service(), provider).Extract()
		if err != nil {
			return err
		}
		consumers = slices.Collect(maps.Keys(answer.Allocations))
		return nil
	})
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	return consumers, err
}

// free frees each orphan; one that cannot be freed does not keep the others
// from it.
func (r *reconciliation) free(ctx context.Context, orphans []Orphan) error {
	var errs []error
	for i := range orphans {
		orphan := &orphans[i]
		orphan.Err = r.flow.again(ctx, func(ctx context.Context) error {
			if orphan.Kind == "arq" {
				return r.flow.cyborg.DeleteARQs(ctx, []string{orphan.ID})
			}
			return r.flow.placement.deleteAllocation(ctx, orphan.ID)
		})
		orphan.Freed = orphan.Err == nil
		if orphan.Err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", orphan.Kind, orphan.ID, orphan.Err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("spawn: reconcile: %w: %w", ErrLeftover, errors.Join(errs...))
}
