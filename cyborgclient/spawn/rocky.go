package spawn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// RockyFlavors has a flow understand flavors of the Rocky specification, which
// ask for accelerators without a device profile; see requestspec.FromRocky. The
// zero value takes them for what shipped Nova does: a claim without a device.
type RockyFlavors struct {
	// Convert turns such a flavor into one with the equivalent device profile.
	Convert bool `json:"convert,omitempty"`
	// Create creates the profile in Cyborg where it is missing, which takes an
	// administrator's token. Otherwise it is an error that tells what to create.
	// The profile stays, for it belongs to the flavor and not to one instance.
	Create bool `json:"create,omitempty"`
	// ShippedClasses asks for the classes of Cyborg's own drivers; see
	// requestspec.RockyOpts.
	ShippedClasses bool `json:"shipped_classes,omitempty"`
}

// RockyProfileError tells which device profile a Rocky flavor needs that Cyborg
// does not have. It matches ErrProfile.
type RockyProfileError struct {
	// Rocky is the flavor in today's terms, with the profile.
	Rocky requestspec.Rocky
	// Commands create the profile and change the flavor, for the administrator.
	Commands []string
}

// Error names the profile and what the administrator can do.
func (e *RockyProfileError) Error() string {
	return fmt.Sprintf("%s: flavor %s asks for accelerators without a device profile; its profile %s is not there. Create it: %s",
		ErrProfile, e.Rocky.Flavor.Name, e.Rocky.Profile.Name, strings.Join(e.Commands, " && "))
}

// Unwrap returns ErrProfile.
func (e *RockyProfileError) Unwrap() error { return ErrProfile }

// convertRocky replaces a Rocky flavor of the request by one with a device
// profile that Cyborg has; it tells so, or nothing for any other flavor.
func (a *Attempt) convertRocky(ctx context.Context) (decision string, err error) {
	config := a.flow.config.RockyFlavors
	if !config.Convert {
		return "", nil
	}
	rocky, ok, err := requestspec.FromRocky(a.Request.Flavor, requestspec.RockyOpts{ShippedClasses: config.ShippedClasses})
	if err != nil {
		return "", fmt.Errorf("%w: %w", requestKind(err), err)
	}
	if !ok {
		return "", nil
	}
	made, err := a.flow.ensureProfile(ctx, rocky)
	if err != nil {
		return "", err
	}
	a.Request.Flavor = rocky.Flavor
	if made {
		return "created for the Rocky flavor: ", nil
	}
	return "of the Rocky flavor: ", nil
}

// ensureProfile makes sure that Cyborg has the profile with these groups, and
// tells whether it was made just now.
func (f *Flow) ensureProfile(ctx context.Context, rocky requestspec.Rocky) (made bool, err error) {
	there, err := f.sameProfile(ctx, rocky.Profile)
	if there || err != nil {
		return false, err
	}
	if !f.config.RockyFlavors.Create {
		commands, err := rocky.Commands()
		if err != nil {
			return false, err
		}
		return false, &RockyProfileError{Rocky: rocky, Commands: commands}
	}
	_, err = f.cyborg.CreateDeviceProfile(ctx, cyborgclient.CreateDeviceProfileOpts{
		Name: rocky.Profile.Name, Description: rocky.Profile.Description, Groups: rocky.Profile.Groups,
	})
	if err == nil {
		return true, nil
	}
	if errors.Is(err, cyborgclient.ErrConflict) || errors.Is(err, cyborgclient.ErrReplyLost) { // another spawn of this flavor, or our own lost reply
		if there, again := f.sameProfile(ctx, rocky.Profile); there || again != nil {
			return false, again
		}
	}
	return false, fmt.Errorf("%w: create device profile %s of flavor %s: %w", ErrProfile, rocky.Profile.Name, rocky.Flavor.Name, err)
}

// sameProfile tells whether a profile of that name is there; one with other
// groups is an error.
func (f *Flow) sameProfile(ctx context.Context, want requestspec.DeviceProfile) (bool, error) {
	found, err := f.cyborg.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{Names: []string{want.Name}})
	if err != nil {
		return false, fmt.Errorf("device profile %s: %w", want.Name, err)
	}
	for _, p := range found {
		if p.Name != want.Name {
			continue
		}
		if err := matching.Unchanged(want, requestspec.DeviceProfile{Name: p.Name, Groups: p.Groups}); err != nil {
			return false, fmt.Errorf("%w: device profile %s is not what its flavor needs: %w", ErrProfile, want.Name, err)
		}
		return true, nil
	}
	return false, nil
}
