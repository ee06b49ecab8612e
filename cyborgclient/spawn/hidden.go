package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// refuseHidden returns an error for an instance of another project if its ARQs may be hidden: Cyborg shows a token
// without the role admin those of its own project. Of a token that the caller has set neither is known.
func (f *Flow) refuseHidden(ctx context.Context, i Instance) error {
	owner := f.tokenOwner()
	if owner.project == "" || owner.admin {
		return nil
	}
	ctx = withRequestID(ctx, i.UUID)
	held, unread := f.allocation(ctx, i.UUID)
	project := cmp.Or(held.Project, i.ProjectID)
	if unread == nil && project == "" || f.isShown(project) {
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
			ErrRequest, project, owner.project)
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
	_, err := f.listARQs(ctx, cyborgclient.ListARQsOpts{})
	return err == nil && !f.isShown(project), err
}

// mayHide returns an error if Cyborg may have ARQs of an instance that it answers not to know: the instance may be of
// another project than the token.
func (f *Flow) mayHide(ctx context.Context, i Instance, absent []cyborgclient.ARQ) error {
	owner := f.tokenOwner()
	if len(absent) == 0 || owner.project == "" || f.isShown("") {
		return nil
	}
	project := ""
	err := f.retry(ctx, func(ctx context.Context) error {
		held, err := f.placement.Allocation(ctx, i.UUID)
		if project = cmp.Or(held.Project, i.ProjectID); err != nil || f.isShown(project) {
			return err
		}
		_, err = f.listARQs(ctx, cyborgclient.ListARQsOpts{})
		return err
	})
	if err != nil || f.isShown(project) {
		return err
	}
	return fmt.Errorf("Cyborg does not show it to the token, which is of project %s and has no role admin, and may hide it: the project of the instance is %s",
		owner.project, cmp.Or(project, "not known (Instance.ProjectID)"))
}

// listARQs lists ARQs, and learns from them whether Cyborg hides any. With a service token it may show by instance what it
// does not show in the list of all.
func (f *Flow) listARQs(ctx context.Context, opts cyborgclient.ListARQsOpts) ([]cyborgclient.ARQ, error) {
	arqs, err := f.cyborg.ListARQs(ctx, opts)
	f.note(arqs)
	return arqs, err
}

// note remembers that Cyborg shows the token ARQs of other projects. That of Zed shows all, without a project.
func (f *Flow) note(arqs []cyborgclient.ARQ) {
	owner := f.tokenOwner()
	if owner.project != "" && slices.ContainsFunc(arqs, func(arq cyborgclient.ARQ) bool { return arq.ProjectID != owner.project }) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.othersShown = time.Now()
	}
}

// showsFor is how long Cyborg counts as one that hides nothing after it has shown an ARQ of another project: it may be
// upgraded to one that does.
const showsFor = time.Hour

// isShown reports that Cyborg shows the token all ARQs of a project. Without the role admin it shows those of the
// token's project only, and answers that others do not exist, unless it has shown that it does not hide them.
func (f *Flow) isShown(project string) bool {
	owner := f.tokenOwner()
	f.mu.Lock()
	defer f.mu.Unlock()
	return owner.admin || project != "" && project == owner.project || time.Since(f.othersShown) < showsFor
}

// checkShown refuses an instance that holds a device without an ARQ that Cyborg shows, if the token may be one to
// which it does not show all: the ARQ would stay bound.
func (f *Flow) checkShown(ctx context.Context, held placement.Allocation, arqs []cyborgclient.ARQ) error {
	if len(held.Resources) == 0 || f.isShown(held.Project) {
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
// is none, or if the token may not list the deployables, which tell.
func (f *Flow) deviceWithout(ctx context.Context, held placement.Resources, arqs []cyborgclient.ARQ) (string, error) {
	devices, err := f.devices(ctx, held, arqs)
	if errors.Is(err, cyborgclient.ErrForbidden) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, arq := range arqs {
		delete(devices, arq.DeviceRPUUID)
	}
	for _, provider := range slices.Sorted(maps.Keys(devices)) {
		if !placement.Equal(held, placement.Without(held, placement.Devices{provider: devices[provider]})) {
			return provider, nil
		}
	}
	return "", nil
}

// hiddenARQs returns errors of the ARQs of a handover that Cyborg may hide: that it does not know them, as it answers to
// their deletion, does not tell that they are gone.
func (a *Attempt) hiddenARQs(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	var err error
	for _, instance := range []string{a.Request.Instance, ""} { // with a service token Cyborg may show them by instance only
		if err == nil && a.mayBeHidden() {
			var arqs []cyborgclient.ARQ
			arqs, err = a.flow.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
			a.see(arqs)
		}
	}
	hidden := map[string]error{}
	if a.mayBeHidden() {
		for uuid := range a.unseen {
			hidden[uuid] = cmp.Or(err, fmt.Errorf("Cyborg does not show it to the token, and may hide it: it was made for project %s", a.Request.ProjectID))
		}
	}
	return hidden
}

// mayBeHidden reports whether Cyborg may hide an ARQ of a handover.
func (a *Attempt) mayBeHidden() bool {
	return len(a.unseen) > 0 && !a.flow.isShown(a.Request.ProjectID)
}

// see notes that Cyborg has shown ARQs. One without a state it has not.
func (a *Attempt) see(arqs []cyborgclient.ARQ) {
	for _, arq := range arqs {
		if arq.State != "" {
			delete(a.unseen, arq.UUID)
		}
	}
}
