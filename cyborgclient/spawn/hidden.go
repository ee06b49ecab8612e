package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
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
func (f *Flow) mayHide(ctx context.Context, i Instance, absent []cyborgclient.ARQ) error {
	owner := f.cyborg.owner()
	if len(absent) == 0 || owner.ProjectID == "" || f.cyborg.shows("") {
		return nil
	}
	project := ""
	err := f.retry(ctx, func(ctx context.Context) error {
		held, err := f.placement.Allocation(ctx, i.UUID)
		if project = cmp.Or(held.Project, i.ProjectID); err != nil || f.cyborg.shows(project) {
			return err
		}
		_, err = f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{})
		return err
	})
	if err != nil || f.cyborg.shows(project) {
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

// handed returns the ARQs that the attempt got from another client, in a handover or in Attempt.ARQs, and that Cyborg has not
// yet shown to be the instance's or no instance's. Those that an earlier unwinding could not delete are among them.
func (a *Attempt) handed() []string {
	uuids := slices.Concat(a.cleanup.arqs(), uuidsOf(a.ARQs))
	slices.Sort(uuids)
	return slices.DeleteFunc(slices.Compact(uuids), func(uuid string) bool { return a.ours[uuid] })
}

// readHanded asks which instances the handed ARQs belong to. ARQs of other instances are left alone, and no longer the
// attempt's. It returns the errors of ARQs whose instance is unknown, which are not to be deleted. That Cyborg does not know
// an ARQ does not prove that it is deleted, if Cyborg may hide it.
func (a *Attempt) readHanded(ctx context.Context) (unknown map[string]error) {
	unknown = map[string]error{}
	if len(a.handed()) == 0 {
		return unknown
	}
	listed, _ := a.flow.instanceARQs(ctx, a.Request.Instance) // with a service token Cyborg may show them by instance only
	a.see(listed)
	a.nameForgotten(listed)
	for _, uuid := range a.handed() {
		var arq *cyborgclient.ARQ
		err := a.flow.retry(ctx, func(ctx context.Context) (err error) {
			arq, err = a.flow.findARQ(ctx, uuid)
			return err
		})
		switch {
		case err != nil:
			unknown[uuid] = err
		case arq != nil && a.mayOwn(*arq):
			a.ours[uuid] = true
		case arq != nil:
			a.leaveAlone(*arq)
		}
	}
	maps.Copy(unknown, a.hiddenARQs(ctx))
	return unknown
}

// hiddenARQs returns an error for each handed ARQ that Cyborg may hide. It lists all ARQs first: some may be visible after all.
func (a *Attempt) hiddenARQs(ctx context.Context) map[string]error {
	hidden := map[string]error{}
	if !a.mayBeHidden() {
		return hidden
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	arqs, err := a.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{})
	if a.see(arqs); !a.mayBeHidden() {
		return hidden
	}
	for _, uuid := range a.handed() {
		hidden[uuid] = cmp.Or(err, fmt.Errorf("the ARQ may exist but is not visible to the token: it was created for project %s", a.Request.ProjectID))
	}
	return hidden
}

// mayBeHidden reports whether Cyborg may hide a handed ARQ.
func (a *Attempt) mayBeHidden() bool {
	return len(a.handed()) > 0 && !a.flow.cyborg.shows(a.Request.ProjectID)
}

// see notes that Cyborg has shown ARQs that may be the attempt's. One without a state it has not shown.
func (a *Attempt) see(arqs []cyborgclient.ARQ) {
	for _, arq := range arqs {
		if arq.State != "" && a.mayOwn(arq) {
			a.ours[arq.UUID] = true
		}
	}
}

// mayOwn reports whether a handed ARQ is the instance's, or no instance's yet.
func (a *Attempt) mayOwn(arq cyborgclient.ARQ) bool {
	return arq.InstanceUUID == "" || arq.InstanceUUID == a.Request.Instance
}

// leaveAlone names a handed ARQ that another instance uses.
func (a *Attempt) leaveAlone(arq cyborgclient.ARQ) {
	a.ARQs = slices.DeleteFunc(slices.Clone(a.ARQs), func(own cyborgclient.ARQ) bool { return own.UUID == arq.UUID })
	a.flow.arqs.remove(arq.UUID)
	a.cleanup.drop(LeftoverARQ, arq.UUID)
	a.cleanup.suspect(Leftover{
		Kind: LeftoverARQ, ID: arq.UUID, Instance: a.Request.Instance, Err: fmt.Errorf("is left alone: it belongs to instance %s", arq.InstanceUUID),
	})
}

// errForgotten is why an ARQ of the instance is not given back.
var errForgotten = errors.New("the ARQ belongs to the instance but is not part of the handover")

// isForgotten reports whether an ARQ of the instance is Bound on the host, and the handover does not name it. One of a
// provider of which the instance held resources before may be older, and one on another host is of an earlier try.
func (a *Attempt) isForgotten(arq cyborgclient.ARQ) bool {
	isNew := len(a.before.Resources[arq.DeviceRPUUID]) == 0 && !slices.Contains(uuidsOf(a.ARQs), arq.UUID) && !a.cleanup.had(arq.UUID)
	return a.resumed && isNew && arq.State == cyborgclient.StateBound && sameHost(arq.Hostname, a.Host)
}

// nameForgotten names such ARQs: they may be those of a later attempt, and are not deleted.
func (a *Attempt) nameForgotten(listed []cyborgclient.ARQ) {
	for _, arq := range listed {
		if a.isForgotten(arq) {
			a.cleanup.suspect(Leftover{Kind: LeftoverARQ, ID: arq.UUID, Instance: a.Request.Instance, Err: errForgotten})
		}
	}
}
