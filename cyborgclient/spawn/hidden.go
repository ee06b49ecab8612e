package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Without the role admin, Cyborg shows a token only the ARQs of its own project, unless the release shows all, and
// answers 404 for others. So an ARQ that is not shown was deleted or is hidden. The allocation of the instance helps
// to decide: each of its devices has an ARQ.

// refuseHidden returns an error that matches ErrHidden if Cyborg shows no ARQ of an instance that may have some.
func (f *Flow) refuseHidden(ctx context.Context, i Instance) error {
	owner := f.cyborg.owner()
	if owner.ProjectID == "" || owner.IsAdmin() { // both are unknown for a token that the caller has set
		return nil
	}
	ctx = withRequestID(ctx, i.UUID)
	held, unread := f.allocation(ctx, i.UUID)
	project := cmp.Or(held.Project, i.ProjectID)
	if unread == nil && project == "" || f.cyborg.shows(project) {
		return nil
	}
	arqs, err := f.instanceARQs(ctx, i.UUID)
	switch {
	case err != nil || len(arqs) > 0:
		return err
	case unread != nil && (project == "" || !i.accelerated()):
		return fmt.Errorf("find the project of the instance, whose ARQs Cyborg may hide: %w", unread)
	case !i.accelerated():
		return f.refuseUnshown(ctx, held, nil)
	}
	return f.hidden(ctx, project)
}

// refuseUnshown returns an error that matches ErrHidden if an instance holds a device whose ARQ is not among the
// given ones, and Cyborg may hide it.
func (f *Flow) refuseUnshown(ctx context.Context, held placement.Allocation, arqs []cyborgclient.ARQ) error {
	if len(held.Resources) == 0 || f.cyborg.shows(held.Project) {
		return nil
	}
	device, err := retry(ctx, f, func(ctx context.Context) (string, error) {
		return f.deviceWithout(ctx, held.Resources, arqs)
	})
	if err != nil || device == "" {
		return err
	}
	if err = f.hidden(ctx, held.Project); errors.Is(err, ErrHidden) {
		err = fmt.Errorf("%w; the ARQ of the device of provider %s is not shown", err, device)
	}
	return err
}

// hidden returns an error that matches ErrHidden if Cyborg may hide ARQs of a project from the token. The list of all
// ARQs may prove that it hides none.
func (f *Flow) hidden(ctx context.Context, project string) error {
	if f.cyborg.shows(project) {
		return nil
	}
	_, err := retry(ctx, f, func(ctx context.Context) ([]cyborgclient.ARQ, error) {
		return f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{})
	})
	if err != nil || f.cyborg.shows(project) {
		return err
	}
	return fmt.Errorf("%w: the instance is of project %s, the token of project %s without the role admin", ErrHidden,
		cmp.Or(project, "unknown (Instance.ProjectID)"), cmp.Or(f.cyborg.owner().ProjectID, "unknown"))
}

// mayHide returns an error if Cyborg may have answered 404 for an existing ARQ of an instance.
func (f *Flow) mayHide(ctx context.Context, i Instance) error {
	if f.cyborg.shows("") {
		return nil
	}
	held, err := f.placement.Allocation(ctx, i.UUID)
	if err != nil {
		return err
	}
	return f.hidden(ctx, cmp.Or(held.Project, i.ProjectID))
}

// deviceWithout returns a Cyborg provider of a device that the instance holds without one of the given ARQs, or "" if
// each has one.
func (f *Flow) deviceWithout(ctx context.Context, held placement.Resources, arqs []cyborgclient.ARQ) (string, error) {
	devices, err := f.devices(ctx, held, arqs)
	if err != nil {
		return "", err
	}
	for _, arq := range arqs {
		delete(devices, arq.DeviceRPUUID)
	}
	return heldDevice(held, devices), nil
}

// heldDevice returns the first provider from which a device is held, or "".
func heldDevice(held placement.Resources, devices placement.Devices) string {
	for _, provider := range slices.Sorted(maps.Keys(devices)) {
		if !placement.Equal(held, placement.Without(held, placement.Devices{provider: devices[provider]})) {
			return provider
		}
	}
	return ""
}

// errForgotten is the reason for not deleting an ARQ of the instance.
var errForgotten = errors.New("the ARQ belongs to the instance but is not part of the handover")

// isForgotten reports whether an ARQ of the instance is Bound on the host but not part of the handover. An ARQ on
// another host belongs to an earlier attempt. An ARQ whose provider the instance used before the claim may be older,
// and is not reported.
func (a *Attempt) isForgotten(arq cyborgclient.ARQ) bool {
	isNew := len(a.before.Resources[arq.DeviceRPUUID]) == 0 && a.journal.Find(ledger.ARQ, arq.UUID) == nil
	return isNew && arq.State == cyborgclient.StateBound && holding.SameHost(arq.Hostname, a.Host)
}

// nameForgotten reports such ARQs as suspects. They may belong to a later attempt, so they are not deleted.
func (a *Attempt) nameForgotten(listed []cyborgclient.ARQ) {
	for _, arq := range listed {
		if a.isForgotten(arq) {
			a.journal.Note(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq}, errForgotten)
		}
	}
}
