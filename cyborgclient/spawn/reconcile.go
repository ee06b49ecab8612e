package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

const (
	// minMinAge is the minimum of ReconcileOpts.MinAge, and its default.
	minMinAge = 15 * time.Minute
	// secondLook is how long an ARQ without an instance must stay unchanged.
	secondLook = time.Minute
)

// ReconcileOpts are the options of [Flow.Reconcile].
type ReconcileOpts struct {
	// Hosts are the names of the compute nodes whose instances Living knows, exactly as in [Result.Host]. Resources
	// on other hosts belong to other agents.
	Hosts []string
	// Living is required. It reports whether an instance exists or is being built on one of the hosts, by any
	// process. It is called once per instance before anything is freed, when an error ends the reconciliation, and
	// again before an allocation or an ARQ of the instance is freed.
	Living func(ctx context.Context, instance string) (bool, error)
	// MinAge is the age from which an ARQ without an instance is an orphan; a younger one may be between its creation
	// and its bind. 0 means 15 minutes, the minimum. MinAge must be longer than any agent on the cloud takes between
	// the two.
	MinAge time.Duration
	// Free frees the orphans. By default they are only listed.
	Free bool
}

// check returns the options with their defaults.
func (o ReconcileOpts) check() (ReconcileOpts, error) {
	if o.MinAge == 0 {
		o.MinAge = minMinAge
	}
	switch {
	case len(o.Hosts) == 0 || slices.Contains(o.Hosts, ""):
		return o, fmt.Errorf("spawn: %w: ReconcileOpts.Hosts names no host", ErrReconcileScope)
	case o.Living == nil:
		return o, fmt.Errorf("%w: ReconcileOpts.Living is required", ErrConfig)
	case o.MinAge < minMinAge:
		return o, fmt.Errorf("%w: ReconcileOpts.MinAge: %s is below %s", ErrConfig, o.MinAge, minMinAge)
	}
	return o, nil
}

// Reconcile finds, and with Free frees, what crashes and late requests did not clean up on the hosts of the caller:
//
//   - ARQs that are bound to one of the hosts, of instances that are not living;
//   - allocations from Cyborg's providers on the hosts, of consumers that are not living. If
//     the consumer also has resources on another host, as after an evacuation, only the part
//     on the hosts is included. Resources of a consumer without accelerators are included if it
//     also has resources on another host, or is one of [Flow.Suspects]. The consumer must be of
//     type INSTANCE, which this package writes from Placement 1.38 on, or have an ARQ on the
//     hosts, or be one of [Flow.Suspects]. Allocations of Nova's migrations are not changed;
//   - ARQs without an instance, which are on no host, once they are MinAge old by the server's
//     clock. If they are unchanged a minute later, they are deleted one by one and without
//     X-Service-Token: a Cyborg of 2026 and later refuses this if the ARQ has got an instance
//     in the meantime.
//
// Handles and mediated devices are freed with their ARQs. If the hypervisor is an [MdevRemover], it removes the
// definitions of the devices first; the instance that it gets has UUID and host. Running attempts of this flow are
// not changed. Reconcile finds only what its token may list; an administrator's token lists the ARQs of all projects.
// An allocation whose ARQs may be hidden from the token is listed but not freed: see [Flow.Release]. The same applies
// to an allocation with an ARQ that has a provider of the hosts and the name of another host, as after a host was
// renamed in Placement: Hosts needs both names.
//
// Everything is read before anything is freed, and an ARQ of an instance is read again before it is deleted: an ARQ
// that has moved to another host is not deleted. Everything that was found is returned, also with an error. Err is
// set on what could not be freed; the returned error joins these and matches ErrLeftover. The error matches
// ErrReconcileScope if Hosts is empty, or if a host has neither a provider in Placement nor an ARQ, because it may
// have another name there. The other hosts are reconciled.
func (f *Flow) Reconcile(ctx context.Context, opts ReconcileOpts) ([]Leftover, error) {
	opts, err := opts.check()
	if err != nil {
		return nil, err
	}
	r := &reconciliation{
		flow: f.asOwn(), opts: opts, hosts: map[string]bool{}, living: map[string]bool{}, onHosts: map[string]bool{},
		known: map[string]bool{}, trees: map[string]bool{}, renamed: map[string]cyborgclient.ARQ{}, arqs: map[string]cyborgclient.ARQ{},
		silent: map[string]error{}, list: f.asOwn().deployables(),
	}
	for _, host := range opts.Hosts {
		r.hosts[host] = true
	}
	orphans, err := r.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("spawn: reconcile: %w", err)
	}
	if opts.Free && len(orphans) > 0 {
		orphans = r.free(ctx, orphans)
	}
	return orphans, errors.Join(r.unknownHosts(), leftoverError(orphans))
}

// unknownHosts returns an error for hosts that neither Placement nor an ARQ names.
func (r *reconciliation) unknownHosts() error {
	unknown := slices.DeleteFunc(slices.Clone(r.opts.Hosts), func(host string) bool { return r.known[host] })
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("spawn: %w: neither Placement nor an ARQ has a host %s", ErrReconcileScope, strings.Join(unknown, ", "))
}

// leftoverError joins the errors of what could not be freed.
func leftoverError(orphans []Leftover) error {
	var errs []error
	for _, orphan := range orphans {
		if orphan.Err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", orphan.Kind, orphan.ID, orphan.Err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("spawn: reconcile: %w: %w", ErrLeftover, errors.Join(errs...))
}

type reconciliation struct {
	flow    *Flow
	opts    ReconcileOpts
	hosts   map[string]bool             // opts.Hosts
	living  map[string]bool             // results of opts.Living
	onHosts map[string]bool             // instances that have an ARQ on the hosts
	known   map[string]bool             // hosts that Placement or an ARQ has
	trees   map[string]bool             // providers of the hosts, the compute nodes included
	renamed map[string]cyborgclient.ARQ // ARQs with a provider of the hosts and the name of another host, by instance
	arqs    map[string]cyborgclient.ARQ // orphans
	silent  map[string]error            // errors of deletions to which an agent did not respond, by host
	// suspects are consumers whose allocations are listed by [Flow.Suspects].
	suspects map[string]bool
	list     *deployableList
}

// find lists the orphans: ARQs, then allocations, then ARQs without an instance.
func (r *reconciliation) find(ctx context.Context) ([]Leftover, error) {
	trees, err := r.readTrees(ctx)
	if err != nil {
		return nil, err
	}
	all, now, err := r.flow.listAllARQs(ctx)
	if err != nil {
		return nil, err
	}
	bound, err := r.boundARQs(ctx, all)
	if err != nil {
		return nil, err
	}
	allocations, err := r.allocations(ctx, trees)
	if err != nil {
		return nil, err
	}
	var unbound []Leftover
	for _, arq := range all {
		if reason := r.oldReason(arq, now); reason != "" && arq.InstanceUUID == "" && !r.flow.book.InUse(arq.UUID) {
			r.arqs[arq.UUID] = arq
			unbound = append(unbound, Leftover{Kind: LeftoverARQ, ID: arq.UUID, Certain: true, Reason: reason})
		}
	}
	return slices.Concat(bound, allocations, unbound), nil
}

// boundARQs returns the ARQs that are bound to the hosts for instances that no longer exist.
func (r *reconciliation) boundARQs(ctx context.Context, arqs []cyborgclient.ARQ) (bound []Leftover, err error) {
	for _, arq := range arqs {
		if arq.InstanceUUID == "" || r.flow.book.InUse(arq.UUID) {
			continue
		}
		if !r.hosts[arq.Hostname] {
			if r.trees[arq.DeviceRPUUID] {
				r.renamed[arq.InstanceUUID] = arq
			}
			continue
		}
		r.onHosts[arq.InstanceUUID], r.known[arq.Hostname] = true, true
		gone, err := r.gone(ctx, arq.InstanceUUID)
		if err != nil {
			return nil, err
		}
		if gone {
			r.arqs[arq.UUID] = arq
			bound = append(bound, Leftover{
				Kind: LeftoverARQ, ID: arq.UUID, Instance: arq.InstanceUUID, Certain: true,
				Reason: fmt.Sprintf("%s on host %s, and instance %s does not exist", arq.State, arq.Hostname, arq.InstanceUUID),
			})
		}
	}
	return bound, nil
}

// oldReason returns why an ARQ without an instance is an orphan, or "" if it may be in use.
func (r *reconciliation) oldReason(arq cyborgclient.ARQ, now time.Time) string {
	since := arq.CreatedAt
	switch arq.State {
	case cyborgclient.StateInitial:
	case cyborgclient.StateUnbound: // between unbind and the next bind
		since = arq.UpdatedAt
	default:
		return ""
	}
	if since.IsZero() || now.Sub(since.Time) < r.opts.MinAge {
		return ""
	}
	return fmt.Sprintf("%s since %s", arq.State, since.UTC().Format(time.RFC3339))
}

// gone reports whether an instance is neither living nor part of a running attempt of this flow.
func (r *reconciliation) gone(ctx context.Context, instance string) (bool, error) {
	if r.flow.book.Busy(instance) {
		return false, nil
	}
	return r.isDead(ctx, instance)
}

// isDead reports whether an instance is not living.
func (r *reconciliation) isDead(ctx context.Context, instance string) (bool, error) {
	living, known := r.living[instance]
	if !known {
		var err error
		if living, err = r.opts.Living(ctx, instance); err != nil {
			return false, fmt.Errorf("living instance %s: %w", instance, err)
		}
		r.living[instance] = living
	}
	return !living, nil
}

// hostProviders are the names of all providers of a host, by UUID.
type hostProviders struct {
	host  string
	names map[string]string
}

// readTrees reads the providers of the hosts.
func (r *reconciliation) readTrees(ctx context.Context) ([]hostProviders, error) {
	var trees []hostProviders
	for _, host := range r.opts.Hosts {
		root, err := r.flow.placement.Named(ctx, host)
		if err != nil {
			return nil, err
		}
		if root == "" {
			continue
		}
		r.known[host] = true
		names, err := r.flow.placement.Tree(ctx, root, "")
		if err != nil {
			return nil, err
		}
		for provider := range names {
			r.trees[provider] = true
		}
		trees = append(trees, hostProviders{host, names})
	}
	return trees, nil
}

// allocations lists the allocations in the trees of the hosts whose consumers no longer exist.
func (r *reconciliation) allocations(ctx context.Context, trees []hostProviders) ([]Leftover, error) {
	var orphans []Leftover
	seen := map[string]bool{}
	r.suspects = map[string]bool{}
	for _, l := range r.flow.Suspects() {
		if l.Kind == LeftoverAllocation {
			r.suspects[l.ID] = true
		}
	}
	for _, tree := range trees {
		for _, provider := range slices.Sorted(maps.Keys(tree.names)) {
			consumers, err := r.goneConsumers(ctx, provider, tree.names[provider], seen)
			if err != nil {
				return nil, err
			}
			for _, consumer := range consumers {
				bound, err := r.shownByInstance(ctx, consumer)
				if err != nil {
					return nil, err
				}
				orphans = append(orphans, bound...)
				orphans = append(orphans, Leftover{
					Kind: LeftoverAllocation, ID: consumer, Instance: consumer, Certain: true,
					Reason: fmt.Sprintf("it uses provider %s of host %s, and the instance does not exist", provider, tree.host),
				})
			}
		}
	}
	return orphans, nil
}

// shownByInstance returns the ARQs on the hosts of a consumer that no longer exists, if the list of all ARQs lacks
// them: with a service token Cyborg may show ARQs of other projects only in the list of one instance.
func (r *reconciliation) shownByInstance(ctx context.Context, consumer string) ([]Leftover, error) {
	if r.onHosts[consumer] {
		return nil, nil
	}
	arqs, err := r.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: consumer})
	if err != nil {
		return nil, err
	}
	return r.boundARQs(ctx, arqs)
}

// goneConsumers returns, sorted, the consumers of a provider that no longer exist and whose allocations the caller
// may free, except consumers in seen.
func (r *reconciliation) goneConsumers(ctx context.Context, provider, name string, seen map[string]bool) ([]string, error) {
	consumers, err := r.flow.placement.Consumers(ctx, provider)
	if err != nil {
		return nil, err
	}
	slices.Sort(consumers)
	var found []string
	for _, consumer := range consumers {
		if seen[consumer] {
			continue
		}
		gone, err := r.gone(ctx, consumer)
		if gone {
			gone, err = r.ours(ctx, consumer, provider, name)
		}
		if err != nil {
			return nil, err
		}
		if gone {
			seen[consumer] = true
			found = append(found, consumer)
		}
	}
	return found, nil
}

// ours reports whether a consumer is an instance and the caller may free what it holds of a provider: a Cyborg
// device, a late claim, or what an evacuation to another host could not release. An instance with resources of only
// one compute node is skipped: most have no accelerator, and Living may not know them.
func (r *reconciliation) ours(ctx context.Context, consumer, provider, name string) (bool, error) {
	if r.onHosts[consumer] {
		return true, nil
	}
	held, err := r.flow.placement.Allocation(ctx, consumer)
	if err != nil || held.Type != placement.TypeInstance && !r.suspects[consumer] {
		return false, err
	}
	rest, err := r.elsewhere(ctx, held.Resources)
	switch {
	case err != nil:
		return false, err
	case r.suspects[consumer], len(rest) > 0:
		return true, nil
	case r.hosts[name] && !r.flow.config.Compat.FlatProviders: // a compute node
		return false, nil
	case placement.HasMemory(held.Resources[provider]): // memory of a card, which Cyborg does not list
		return true, nil
	}
	deployables, err := r.list.named(ctx, provider, name)
	if errors.Is(err, cyborgclient.ErrForbidden) {
		return isCyborgs(provider), nil
	}
	return useDevices(placement.Resources{provider: held.Resources[provider]}, deployables), err
}

// free frees each orphan, even if another could not be freed, and returns the orphans that it processed.
func (r *reconciliation) free(ctx context.Context, orphans []Leftover) []Leftover {
	var unbound, done []Leftover
	for _, orphan := range orphans {
		arq := r.arqs[orphan.ID]
		gone := true
		switch {
		case orphan.Kind != LeftoverARQ:
			gone = r.freeAllocation(ctx, &orphan)
		case arq.InstanceUUID == "":
			unbound = append(unbound, orphan)
			continue
		default:
			gone = r.deleteBound(ctx, arq, &orphan)
		}
		if gone || orphan.Err != nil {
			done = append(done, orphan)
		}
	}
	done = slices.Concat(done, r.freeUnchanged(ctx, unbound))
	type subject struct {
		kind LeftoverKind
		id   string
	}
	freed := make(map[subject]bool, len(done))
	for _, l := range done {
		freed[subject{l.Kind, l.ID}] = l.Err == nil
	}
	r.flow.book.Forget(func(e ledger.Effect) bool {
		l := leftoverOf(e)
		return freed[subject{l.Kind, l.ID}]
	})
	return done
}

// remove removes the effects that adopt adds to the journal, under the lock of the instance. It reports whether the
// orphan existed.
func (r *reconciliation) remove(ctx context.Context, instance, host string, orphan *Leftover, adopt func(m *remover) *ledger.Effect) bool {
	journal, err := r.flow.book.Open(ctx, instance)
	if err != nil {
		orphan.Err = err
		return true
	}
	defer journal.End()
	m := r.flow.newRemover(journal, Instance{UUID: instance, Host: host})
	m.impatient = true
	e := adopt(m)
	m.undo(ctx, nil)
	switch e.State {
	case ledger.Undone:
		return slices.Contains(journal.Removed(), e)
	case ledger.Foreign:
		journal.Settle(e, ledger.Undone, nil) // there is nothing to report
		return false
	}
	orphan.Err, orphan.Certain = e.Err, e.State == ledger.Left
	return true
}

// deleteBound deletes an ARQ of an instance that still does not exist, unless another agent has moved or unbound it.
// If the agent of a host did not respond, other deletions on that host are skipped.
func (r *reconciliation) deleteBound(ctx context.Context, arq cyborgclient.ARQ, orphan *Leftover) (gone bool) {
	gone, err := r.stillGone(ctx, arq.InstanceUUID)
	var present []cyborgclient.ARQ
	if gone && err == nil {
		present, err = r.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: arq.InstanceUUID})
	}
	isSilent := false
	if err == nil && mayBeMediated(arq) {
		err = r.silent[arq.Hostname]
		isSilent = err != nil
	}
	if err != nil {
		found, readErr := r.flow.findARQ(ctx, arq.UUID)
		orphan.Err, orphan.Certain = err, found != nil && readErr == nil
		return gone || isSilent
	}
	isThere := slices.ContainsFunc(present, func(other cyborgclient.ARQ) bool { return other.UUID == arq.UUID && other.Hostname == arq.Hostname })
	if !gone || !isThere {
		return false
	}
	gone = r.remove(ctx, arq.InstanceUUID, arq.Hostname, orphan, func(m *remover) *ledger.Effect {
		m.takeARQs([]cyborgclient.ARQ{arq})
		return m.journal.Find(ledger.ARQ, arq.UUID)
	})
	if errors.Is(orphan.Err, context.DeadlineExceeded) && ctx.Err() == nil && mayBeMediated(arq) {
		r.silent[arq.Hostname] = fmt.Errorf("skipped: the agent did not respond while deleting ARQ %s: %w", arq.UUID, orphan.Err)
	}
	return gone
}

// stillGone asks again whether an instance exists: it may have been built again, by this flow or another process.
func (r *reconciliation) stillGone(ctx context.Context, instance string) (bool, error) {
	delete(r.living, instance)
	return r.gone(ctx, instance)
}

// freeAllocation removes the hosts' resources from the allocation of a consumer that still does not exist. It calls
// Living again each time the allocation has been read. If another process claims for the consumer in between, the
// change fails because of its generation.
func (r *reconciliation) freeAllocation(ctx context.Context, orphan *Leftover) (gone bool) {
	consumer := orphan.ID
	if gone, orphan.Err = r.stillGone(ctx, consumer); orphan.Err != nil || !gone {
		return gone
	}
	held, err := r.flow.allocation(ctx, consumer)
	rest := held.Resources
	if err == nil {
		rest, err = r.elsewhere(ctx, held.Resources)
	}
	if err != nil {
		orphan.Err, orphan.Certain = err, false
		return true
	}
	return r.remove(ctx, consumer, "", orphan, func(m *remover) *ledger.Effect {
		m.confirm = func(ctx context.Context) (bool, error) {
			delete(r.living, consumer)
			if dead, err := r.isDead(m.journal.Inside(ctx), consumer); err != nil || !dead {
				return false, err
			}
			return true, r.refuse(ctx, consumer)
		}
		return m.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: consumer, Amount: &ledger.Amount{Added: placement.Subtract(held.Resources, rest)}})
	})
}

// refuse returns why the allocation of a consumer is not freed, although the instance does not exist.
func (r *reconciliation) refuse(ctx context.Context, consumer string) error {
	if arq, ok := r.renamed[consumer]; ok {
		return fmt.Errorf("ARQ %s (provider %s) is on host %s, which is not in ReconcileOpts.Hosts", arq.UUID, arq.DeviceRPUUID, arq.Hostname)
	}
	if r.onHosts[consumer] {
		return nil
	}
	return r.flow.refuseHidden(ctx, Instance{UUID: consumer})
}

// elsewhere returns what a consumer holds on hosts other than the caller's. If these are only resources of sharing
// providers, such as a disk, they belong to the resources on the caller's hosts.
func (r *reconciliation) elsewhere(ctx context.Context, held placement.Resources) (placement.Resources, error) {
	rest := placement.Elsewhere(held, r.trees)
	for _, provider := range slices.Sorted(maps.Keys(rest)) {
		traits, err := r.flow.placement.Traits(ctx, provider)
		if err != nil || !slices.Contains(traits, placement.TraitShares) {
			return rest, err
		}
	}
	return nil, nil
}

// freeUnchanged deletes the ARQs without an instance that have not changed after a minute.
func (r *reconciliation) freeUnchanged(ctx context.Context, orphans []Leftover) []Leftover {
	if len(orphans) == 0 {
		return nil
	}
	err := sleep(ctx, secondLook)
	var all []cyborgclient.ARQ
	if err == nil {
		all, _, err = r.flow.listAllARQs(ctx)
	}
	if err != nil {
		for i := range orphans {
			orphans[i].Err = err
		}
		return orphans
	}
	unchanged := make(map[string]bool, len(all))
	for _, arq := range all {
		before := r.arqs[arq.UUID]
		unchanged[arq.UUID] = arq.InstanceUUID == "" && arq.UpdatedAt.Equal(before.UpdatedAt.Time) && !r.flow.book.InUse(arq.UUID)
	}
	orphans = slices.DeleteFunc(orphans, func(orphan Leftover) bool { return !unchanged[orphan.ID] })
	for i := range orphans {
		arq := r.arqs[orphans[i].ID]
		r.remove(ctx, arq.UUID, "", &orphans[i], func(m *remover) *ledger.Effect { // no instance
			return m.journal.Take(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq, Guard: ledger.Unbound})
		})
	}
	return slices.DeleteFunc(orphans, func(orphan Leftover) bool { return errors.Is(orphan.Err, cyborgclient.ErrServiceToken) })
}
