package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/matching"
)

// verifyProfiles reads the device profiles again, now that the ARQs are made of
// them, and compares them with what was asked of Placement. The error matches
// matching.ErrProfileChanged.
func (a *Attempt) verifyProfiles(ctx context.Context) error {
	if !a.flow.config.VerifyProfile {
		return nil
	}
	for _, from := range a.sources() {
		now, err := a.readProfile(ctx, from.profile.Name)
		if err == nil {
			err = matching.Unchanged(from.profile, now)
		}
		if err != nil {
			return fmt.Errorf("device profile %s, read again: %w", from.profile.Name, err)
		}
	}
	return nil
}
