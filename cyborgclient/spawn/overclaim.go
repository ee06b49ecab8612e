package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// withOverclaim adds to the error of a bind that found no free handle that Placement has allocated more of a provider than it
// has: on a database without snapshot isolation, claims that overlap do not see each other, and only the handle is given once.
// Providers that cannot be read add nothing.
func (a *Attempt) withOverclaim(ctx context.Context, err error) error {
	if !errors.Is(err, cyborgclient.ErrNoFreeHandle) {
		return err
	}
	var providers []string
	for _, binding := range a.Bindings {
		if !slices.Contains(providers, binding.DeviceRP) {
			providers = append(providers, binding.DeviceRP)
		}
	}
	for _, provider := range providers {
		exceeded, _ := a.flow.placement.Exceeded(ctx, provider)
		for _, e := range exceeded {
			err = fmt.Errorf("%w; Placement has allocated %d %s of resource provider %s, which has %d: claims may have overlapped", err, e.Used, e.Class, provider, e.Capacity)
		}
	}
	return err
}
