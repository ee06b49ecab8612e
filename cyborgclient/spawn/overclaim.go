package spawn

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// withOverclaim completes the error of a bind that found no free handle: it adds the providers whose allocations in
// Placement exceed their capacity. On a database without snapshot isolation, overlapping claims do not see each
// other, and there is a handle for only one of them. Providers that cannot be read are omitted.
func (a *Attempt) withOverclaim(ctx context.Context, err error) error {
	if !errors.Is(err, cyborgclient.ErrNoFreeHandle) {
		return err
	}
	for _, provider := range a.boundProviders() {
		exceeded, _ := a.flow.placement.Exceeded(ctx, provider)
		for _, e := range exceeded {
			err = fmt.Errorf("%w; Placement has allocated %d %s of resource provider %s, which has %d: claims may have overlapped", err, e.Used, e.Class, provider, e.Capacity)
		}
	}
	return err
}
