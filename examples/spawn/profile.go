package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/requestspec"
)

// ensureProfile returns the name of the device profile. One given as a file is created
// in the cloud unless it exists with the same groups.
func ensureProfile(ctx context.Context, opts options, client *cyborgclient.Client) (string, error) {
	if !opts.profileIsFile() {
		return opts.Profile, nil
	}
	data, err := os.ReadFile(opts.Profile)
	if err != nil {
		return "", fmt.Errorf("%w: --profile: %w", errUsage, err)
	}
	profile, err := requestspec.ParseProfileFile(data)
	if err != nil {
		return "", fmt.Errorf("%w: --profile %s: %w", errUsage, opts.Profile, err)
	}
	found, err := client.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{Names: []string{profile.Name}})
	if err != nil {
		return "", fmt.Errorf("device profile %s: %w", profile.Name, err)
	}
	if len(found) == 0 {
		_, err = client.CreateDeviceProfile(ctx, cyborgclient.CreateDeviceProfileOpts{Name: profile.Name, Groups: profile.Groups})
		return profile.Name, err
	}
	if !slices.EqualFunc(found[0].Groups, profile.Groups, maps.Equal[map[string]string]) {
		return "", fmt.Errorf("%w: --profile %s: the cloud has another device profile named %s", errUsage, opts.Profile, profile.Name)
	}
	return profile.Name, nil
}
