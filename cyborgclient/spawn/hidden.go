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

// Cyborg shows a token without the role admin the ARQs of its own project only, unless the release shows all. It answers that others do
// not exist, so that an ARQ that is not shown is either deleted or hidden. What an instance holds tells: there is an ARQ of each of its
// devices.

// refuseHidden returns an error that matches ErrHidden if Cyborg shows no ARQ of an instance that may have some.
func (f *Flow) refuseHidden(ctx context.Context, i Instance) error {
	owner := f.cyborg.owner()
	if owner.ProjectID == "" || owner.IsAdmin() { // of a token that the caller has set neither is known
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

// refuseUnshown returns an error that matches ErrHidden if an instance holds a device without one of its ARQs, and Cyborg may hide
// that.
func (f *Flow) refuseUnshown(ctx context.Context, held placement.Allocation, arqs []cyborgclient.ARQ) error {
	if len(held.Resources) == 0 || f.cyborg.shows(held.Project) {
		return nil
	}
	var device string
	err := f.retry(ctx, func(ctx context.Context) (err error) {
		device, err = f.deviceWithout(ctx, held.Resources, arqs)
		return err
	})
	if err != nil || device == "" {
		return err
	}
	if err = f.hidden(ctx, held.Project); errors.Is(err, ErrHidden) {
		err = fmt.Errorf("%w; the ARQ of the device of provider %s is not shown", err, device)
	}
	return err
}

// hidden returns an error that matches ErrHidden if Cyborg may hide ARQs of a project from the token. The list of all may show that it
// hides none.
func (f *Flow) hidden(ctx context.Context, project string) error {
	if f.cyborg.shows(project) {
		return nil
	}
	err := f.retry(ctx, func(ctx context.Context) error {
		_, err := f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{})
		return err
	})
	if err != nil || f.cyborg.shows(project) {
		return err
	}
	return fmt.Errorf("%w: the instance is of project %s, the token of project %s without the role admin", ErrHidden,
		cmp.Or(project, "unknown (Instance.ProjectID)"), cmp.Or(f.cyborg.owner().ProjectID, "unknown"))
}

// mayHide returns an error if Cyborg may have an ARQ of an instance that it answers not to know.
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

// deviceWithout returns a provider of Cyborg's of which an instance holds a device without one of its ARQs; "" if there
// is none.
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

// heldDevice returns the first provider whose devices are held, or "".
func heldDevice(held placement.Resources, devices placement.Devices) string {
	for _, provider := range slices.Sorted(maps.Keys(devices)) {
		if !placement.Equal(held, placement.Without(held, placement.Devices{provider: devices[provider]})) {
			return provider
		}
	}
	return ""
}

// errForgotten is why an ARQ of the instance is not given back.
var errForgotten = errors.New("the ARQ belongs to the instance but is not part of the handover")

// isForgotten reports whether an ARQ of the instance is Bound on the host, and a handover does not name it. One of a
// provider of which the instance held resources before may be older, and one on another host is of an earlier try.
func (a *Attempt) isForgotten(arq cyborgclient.ARQ) bool {
	isNew := len(a.before.Resources[arq.DeviceRPUUID]) == 0 && a.journal.Find(ledger.ARQ, arq.UUID) == nil
	return isNew && arq.State == cyborgclient.StateBound && holding.SameHost(arq.Hostname, a.Host)
}

// nameForgotten names such ARQs: they may be those of a later attempt, and are not deleted.
func (a *Attempt) nameForgotten(listed []cyborgclient.ARQ) {
	for _, arq := range listed {
		if a.isForgotten(arq) {
			a.journal.Note(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq}, errForgotten)
		}
	}
}
