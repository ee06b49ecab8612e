package spawn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
	var held placement.Allocation
	err := f.retry(ctx, func(ctx context.Context) (err error) {
		held, err = f.placement.Allocation(ctx, i.UUID)
		return err
	})
	project := cmp.Or(held.Project, i.ProjectID)
	if err != nil || project == "" || project == owner.project {
		return nil
	}
	isHidden := false
	err = f.retry(ctx, func(ctx context.Context) (err error) {
		isHidden, err = f.hides(ctx, i, held.Resources, owner.project)
		return err
	})
	if isHidden {
		err = fmt.Errorf("%w: the instance has accelerators and is of project %s, whose ARQs Cyborg does not show to the token: it is of project %s, and has no role admin",
			ErrRequest, project, owner.project)
	}
	return err
}

// hides reports whether an instance has accelerators, and Cyborg shows neither an ARQ of it nor one of another
// project than that of the token.
func (f *Flow) hides(ctx context.Context, i Instance, held placement.Resources, project string) (bool, error) {
	if !i.accelerated() {
		if device, err := f.heldDevice(ctx, held); err != nil || device == "" {
			return false, err
		}
	}
	arqs, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: i.UUID})
	if err != nil || len(arqs) > 0 {
		return false, err
	}
	arqs, err = f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{})
	isOthers := func(arq cyborgclient.ARQ) bool { return arq.ProjectID != project } // as Cyborg of Zed shows them to all
	return err == nil && !slices.ContainsFunc(arqs, isOthers), err
}
