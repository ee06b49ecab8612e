package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// refuseHidden returns an error for an instance of another project if its ARQs may be hidden: Cyborg shows a token
// without the role admin those of its own project. Of a token that the caller has set neither is known.
func (f *Flow) refuseHidden(ctx context.Context, i Instance) error {
	owner := f.cyborg.owner()
	if owner.ProjectID == "" || owner.IsAdmin() {
		return nil
	}
	ctx = withRequestID(ctx, i.UUID)
	held, unread := f.allocation(ctx, i.UUID)
	project := cmp.Or(held.Project, i.ProjectID)
	if unread == nil && project == "" || f.cyborg.shows(project) {
		return nil
	}
	arqs, err := f.instanceARQs(ctx, i.UUID)
	if err != nil || len(arqs) > 0 {
		return err
	}
	if unread != nil && (project == "" || !i.accelerated()) {
		return fmt.Errorf("find the project of the instance, whose ARQs Cyborg may hide: %w", unread)
	}
	isHidden := false
	err = f.retry(ctx, func(ctx context.Context) (err error) {
		isHidden, err = f.hides(ctx, i, held.Resources, project)
		return err
	})
	if isHidden {
		err = fmt.Errorf("%w: the instance has accelerators and is of project %s, whose ARQs Cyborg does not show to the token: it is of project %s, and has no role admin",
			ErrRequest, project, owner.ProjectID)
	}
	return err
}

// hides reports whether an instance has accelerators, and Cyborg shows the token no ARQ of another project.
func (f *Flow) hides(ctx context.Context, i Instance, held placement.Resources, project string) (bool, error) {
	if !i.accelerated() {
		if device, err := f.deviceWithout(ctx, held, nil); err != nil || device == "" {
			return false, err
		}
	}
	_, err := f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{})
	return err == nil && !f.cyborg.shows(project), err
}

// mayHide returns an error if Cyborg may have ARQs of an instance that it answers not to know: the instance may be of
// another project than the token.
func (f *Flow) mayHide(ctx context.Context, i Instance) error {
	owner := f.cyborg.owner()
	if f.cyborg.shows("") {
		return nil
	}
	held, err := f.placement.Allocation(ctx, i.UUID)
	project := cmp.Or(held.Project, i.ProjectID)
	if err != nil || f.cyborg.shows(project) {
		return err
	}
	if _, err = f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{}); err != nil || f.cyborg.shows(project) { // some may be visible after all
		return err
	}
	return fmt.Errorf("the ARQ may exist but is not visible to project %s without the admin role: the project of the instance is %s",
		owner.ProjectID, cmp.Or(project, "not known (Instance.ProjectID)"))
}

// checkShown refuses an instance that holds a device without an ARQ that Cyborg shows, if the token may be one to
// which it does not show all: the ARQ would stay bound.
func (f *Flow) checkShown(ctx context.Context, held placement.Allocation, arqs []cyborgclient.ARQ) error {
	if len(held.Resources) == 0 || f.cyborg.shows(held.Project) {
		return nil
	}
	provider, err := f.deviceWithout(ctx, held.Resources, arqs)
	if err != nil || provider == "" {
		return err
	}
	return fmt.Errorf("%w: the instance holds a device of provider %s, and Cyborg shows the token no ARQ of it: use one of project %s or with the role admin; if there is no ARQ, ReleaseDevices with such a token gives the device back",
		ErrRequest, provider, held.Project)
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
	return isNew && arq.State == cyborgclient.StateBound && sameHost(arq.Hostname, a.Host)
}

// nameForgotten names such ARQs: they may be those of a later attempt, and are not deleted.
func (a *Attempt) nameForgotten(listed []cyborgclient.ARQ) {
	for _, arq := range listed {
		if a.isForgotten(arq) {
			a.journal.Note(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq}, errForgotten)
		}
	}
}
