package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// ReadProfile is step 1: it reads the device profiles that the ports and the flavor name. The error for a missing
// profile matches ErrProfile. The flavor may name none.
func (a *Attempt) ReadProfile(ctx context.Context) error {
	return a.record.step(ctx, StepProfile, func(ctx context.Context) (string, error) {
		for _, port := range a.Request.Ports {
			if !port.Accelerated() {
				continue
			}
			profile, err := a.flow.readProfile(ctx, port.DeviceProfile)
			if err != nil {
				return "", fmt.Errorf("port %s: %w", port.UUID, err)
			}
			a.PortProfiles[port.UUID] = profile
		}
		ports := ""
		if len(a.PortProfiles) > 0 {
			ports = ", " + count(len(a.PortProfiles), "profile") + " of ports"
		}
		rocky, err := a.convertRocky(ctx)
		if err != nil {
			return "", err
		}
		name, ok := a.Request.Flavor.DeviceProfile()
		if !ok {
			return "the flavor names no device profile" + ports, nil
		}
		profile, err := a.flow.readProfile(ctx, name)
		if err != nil {
			return "", err
		}
		a.Profile = &profile
		return rocky + name + ": " + count(len(profile.Groups), "group") + ports, nil
	})
}

// readProfile reads a device profile. The error for a missing profile matches ErrProfile.
func (f *Flow) readProfile(ctx context.Context, name string) (requestspec.Profile, error) {
	found, exists, err := f.findProfile(ctx, name)
	if err == nil && !exists {
		err = fmt.Errorf("%w: %q does not exist", ErrProfile, name)
	}
	return found, err
}

func (f *Flow) findProfile(ctx context.Context, name string) (profile requestspec.Profile, exists bool, err error) {
	found, err := f.cyborg.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{Names: []string{name}})
	switch {
	case err != nil:
		return profile, false, err
	case len(found) == 0:
		return profile, false, nil
	case len(found) > 1:
		return profile, false, fmt.Errorf("%w: Cyborg lists %d device profiles %q", ErrProfile, len(found), name)
	}
	return ProfileOf(found[0]), true, nil
}

// BuildRequest is step 2: it converts flavor and profile to request groups. The error for a profile that cannot be
// scheduled matches ErrProfile, for an invalid flavor ErrRequest. The decision names extra specs that are ignored.
func (a *Attempt) BuildRequest(ctx context.Context) error {
	return a.record.step(ctx, StepRequest, func(context.Context) (string, error) {
		if err := a.buildSpec(); err != nil {
			return "", err
		}
		return groupsText(a.Spec.Groups) + warningsText(a.Spec.Warnings), nil
	})
}

// warningsText describes what is ignored, or rejected later, in the flavor or the image.
func warningsText(warnings []requestspec.Warning) (text string) {
	for _, w := range warnings {
		text += fmt.Sprintf("; %s=%q: %s", w.Key, w.Value, w.Message)
	}
	return text
}

func (a *Attempt) buildSpec() error {
	options, err := a.options()
	if err != nil {
		return err
	}
	a.Spec, err = requestspec.New(a.Request.Flavor, a.Profile, options)
	if err != nil {
		return fmt.Errorf("%w: flavor %s: %w", requestKind(err), a.Request.Flavor.Name, err)
	}
	return nil
}

func requestKind(err error) error {
	if errors.Is(err, requestspec.ErrInvalidProfile) {
		return ErrProfile
	}
	return ErrRequest
}

// options returns the options of the request with Compat applied, and with the groups of the ports, which come before
// the groups of the profile.
func (a *Attempt) options() (requestspec.Options, error) {
	options := a.Request.Options
	options.NumericSuffixes = options.NumericSuffixes || a.flow.placement.Old()
	if a.flow.config.Compat.OwnerNovaOnFlavorGroups {
		options.OwnerNova, options.OwnerNovaOnFlavorGroups = true, true
	}
	for _, s := range a.sources() {
		if !s.ofPort() {
			continue
		}
		groups, err := requestspec.PortGroups(s.port.Port, &s.profile, options.ComputeVersion)
		if err != nil {
			return options, fmt.Errorf("%w: %w", requestKind(err), err)
		}
		options.Groups = append(slices.Clip(options.Groups), groups...)
	}
	return options, nil
}

// groupsText describes each group: "device_profile_0 PGPU:1 with CUSTOM_A without
// CUSTOM_B".
func groupsText(groups []requestspec.Group) string {
	texts := make([]string, len(groups))
	for i, group := range groups {
		texts[i] = cmp.Or(group.RequesterID, "flavor") + " " + amountsText(group.Resources)
		if len(group.Required) > 0 {
			texts[i] += " with " + strings.Join(group.Required, "+")
		}
		if len(group.Forbidden) > 0 {
			texts[i] += " without " + strings.Join(group.Forbidden, "+")
		}
	}
	return strings.Join(texts, ", ")
}

func amountsText(resources map[string]int) string {
	amounts := make([]string, 0, len(resources))
	for _, class := range slices.Sorted(maps.Keys(resources)) {
		amounts = append(amounts, fmt.Sprintf("%s:%d", class, resources[class]))
	}
	return strings.Join(amounts, "+")
}

// Port is a network port of the instance. An accelerated port gets a Cyborg device with its own ARQ. The device
// becomes the port's interface in the guest, not a host device.
type Port struct {
	requestspec.Port
	// MAC and VLAN are set on the interface in the domain. Without a MAC the caller adds the interface.
	MAC  string `json:"mac,omitempty"`
	VLAN int    `json:"vlan,omitempty"`
	// BindingProfile is the port's binding:profile. A spawn adds arq_uuid, pci_slot
	// and physical_network; domainxml.CleanBindingProfile removes these when the port
	// is unbound.
	BindingProfile map[string]any `json:"binding_profile,omitempty"`
}

// ARQ returns the UUID of the ARQ that the binding profile names; empty for none.
func (p Port) ARQ() string {
	arq, _ := p.BindingProfile["arq_uuid"].(string)
	return arq
}

func checkPorts(ports []Port) error {
	seen := make(map[string]bool, len(ports))
	for _, port := range ports {
		if err := checkUUID("port", port.UUID); err != nil {
			return err
		}
		if arq := port.ARQ(); arq != "" {
			if err := checkUUID("ARQ of port "+port.UUID, arq); err != nil {
				return err
			}
		}
		if port.Accelerated() && port.DeviceProfile == "" {
			return fmt.Errorf("%w: no device profile for port %s", ErrRequest, port.UUID)
		}
		if seen[port.UUID] {
			return fmt.Errorf("%w: port %s is given twice", ErrRequest, port.UUID)
		}
		seen[port.UUID] = true
	}
	return nil
}

// source is one device profile of the instance, the flavor's or a port's. One POST creates its ARQs.
type source struct {
	profile requestspec.Profile
	port    Port // zero: the flavor's
}

func (s source) ofPort() bool { return s.port.UUID != "" }

// mappings returns the mappings of this profile, keyed by the requester IDs of a flavor's profile.
func (s source) mappings(all map[string][]string) map[string][]string {
	if !s.ofPort() {
		return all
	}
	own := make(map[string][]string, len(s.profile.Groups))
	for i := range s.profile.Groups {
		if providers, ok := all[s.port.RequesterID(i)]; ok {
			own[requestspec.RequesterID(i)] = providers
		}
	}
	return own
}

// sources returns the profiles in the order in which Nova sends the POSTs: the flavor's, then the ports'.
func (a *Attempt) sources() []source {
	list := make([]source, 0, len(a.PortProfiles)+1)
	if a.Profile != nil {
		list = append(list, source{profile: *a.Profile})
	}
	for _, port := range a.Request.Ports {
		if profile, ok := a.PortProfiles[port.UUID]; ok {
			list = append(list, source{profile: profile, port: port})
		}
	}
	return list
}

// accelerated reports whether the request needs ARQs.
func (a *Attempt) accelerated() bool {
	return a.Profile != nil || len(a.PortProfiles) > 0
}

// deviceGroups returns the request groups of all profiles.
func (a *Attempt) deviceGroups() []requestspec.Group {
	groups := a.Spec.DeviceGroups()
	for _, s := range a.sources() {
		for i := range s.profile.Groups {
			for _, group := range a.Spec.Groups {
				if s.ofPort() && group.RequesterID == s.port.RequesterID(i) {
					groups = append(groups, group)
				}
			}
		}
	}
	return groups
}

// RockyFlavors makes a flow convert flavors of the Rocky specification, which request accelerators without a device
// profile; see requestspec.FromRocky. The zero value rejects them (ErrProfile), because their instances would claim
// resources and get no device, as in shipped Nova.
type RockyFlavors struct {
	// Convert turns such a flavor into one with the equivalent device profile.
	Convert bool `json:"convert,omitempty"`
	// Create creates a missing profile in Cyborg, which requires an administrator's token. The profile is not deleted
	// later, because it belongs to the flavor. Without Create a missing profile is an ErrProfile whose text contains
	// the commands that create it.
	Create bool `json:"create,omitempty"`
	// ShippedClasses requests the resource classes of Cyborg's drivers; see
	// requestspec.FromRocky.
	ShippedClasses bool `json:"shipped_classes,omitempty"`
}

// convertRocky replaces a Rocky flavor of the request by one with a device profile
// that Cyborg has. The decision is empty for any other flavor.
func (a *Attempt) convertRocky(ctx context.Context) (decision string, err error) {
	config := a.flow.config.RockyFlavors
	rocky, ok, err := requestspec.FromRocky(a.Request.Flavor, config.ShippedClasses)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", requestKind(err), err)
	case !ok:
		return "", nil
	case !config.Convert:
		return "", withoutProfile(rocky, "set rocky_flavors.convert, or use the device profile "+rocky.Profile.Name)
	}
	created, err := a.flow.ensureProfile(ctx, rocky)
	if err != nil {
		return "", err
	}
	a.Request.Flavor = rocky.Flavor
	if created {
		return "created for the Rocky flavor: ", nil
	}
	return "of the Rocky flavor: ", nil
}

// withoutProfile is the error of a Rocky flavor, with the commands that replace it.
func withoutProfile(rocky requestspec.Rocky, remedy string) error {
	commands, err := rocky.Commands()
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: flavor %s requests accelerators without a device profile; %s: %s",
		ErrProfile, rocky.Flavor.Name, remedy, strings.Join(commands, " && "))
}

// ensureProfile makes sure that Cyborg has the profile with these groups, and reports whether it was created.
func (f *Flow) ensureProfile(ctx context.Context, rocky requestspec.Rocky) (created bool, err error) {
	exists, err := f.sameProfile(ctx, rocky.Profile)
	if exists || err != nil {
		return false, err
	}
	if !f.config.RockyFlavors.Create {
		return false, withoutProfile(rocky, "device profile "+rocky.Profile.Name+" does not exist, create it")
	}
	_, err = f.cyborg.CreateDeviceProfile(ctx, cyborgclient.CreateDeviceProfileOpts{
		Name: rocky.Profile.Name, Description: rocky.Profile.Description, Groups: rocky.Profile.Groups,
	})
	if err == nil {
		return true, nil
	}
	if errors.Is(err, cyborgclient.ErrConflict) || errors.Is(err, cyborgclient.ErrReplyLost) { // created by another spawn of this flavor, or by this one
		if exists, readErr := f.sameProfile(ctx, rocky.Profile); exists || readErr != nil {
			return false, readErr
		}
	}
	return false, fmt.Errorf("%w: create device profile %s of flavor %s: %w", ErrProfile, rocky.Profile.Name, rocky.Flavor.Name, err)
}

// sameProfile reports whether a profile with that name exists. It is an error if its groups differ.
func (f *Flow) sameProfile(ctx context.Context, want requestspec.Profile) (bool, error) {
	found, exists, err := f.findProfile(ctx, want.Name)
	if err != nil || !exists {
		return false, err
	}
	if err := matching.Unchanged(want, found); err != nil {
		return false, fmt.Errorf("%w: device profile %s differs from what its flavor needs: %w", ErrProfile, want.Name, err)
	}
	return true, nil
}
