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

// ReadProfile is step 1: it reads the device profiles that the ports and the
// flavor name. Exactly one must exist of each name; otherwise the error matches
// ErrProfile. A flavor without a device profile has nothing to read.
func (a *Attempt) ReadProfile(ctx context.Context) error {
	return a.step(ctx, StepProfile, func(ctx context.Context) (string, error) {
		for _, port := range a.Request.Ports {
			if !port.Accelerated() {
				continue
			}
			profile, err := a.readProfile(ctx, port.DeviceProfile)
			if err != nil {
				return "", fmt.Errorf("port %s: %w", port.UUID, err)
			}
			if a.PortProfiles == nil {
				a.PortProfiles = make(map[string]requestspec.DeviceProfile)
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
		profile, err := a.readProfile(ctx, name)
		if err != nil {
			return "", err
		}
		a.Profile = &profile
		return rocky + name + ": " + count(len(profile.Groups), "group") + ports, nil
	})
}

func (a *Attempt) readProfile(ctx context.Context, name string) (requestspec.DeviceProfile, error) {
	found, err := a.flow.cyborg.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{Names: []string{name}})
	if err != nil {
		return requestspec.DeviceProfile{}, fmt.Errorf("device profile %s: %w", name, err)
	}
	if len(found) != 1 {
		return requestspec.DeviceProfile{}, fmt.Errorf("%w: %s: expected 1 device profile but got %d", ErrProfile, name, len(found))
	}
	return requestspec.DeviceProfile{Name: found[0].Name, Groups: found[0].Groups}, nil
}

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

// BuildRequest is step 2: flavor and profile become request groups. A profile
// that cannot be scheduled matches ErrProfile, a wrong flavor ErrRequest.
func (a *Attempt) BuildRequest(ctx context.Context) error {
	return a.step(ctx, StepRequest, func(context.Context) (string, error) {
		if err := a.buildSpec(); err != nil {
			return "", err
		}
		return groupsText(a.Spec.Groups), nil
	})
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

// options are the caller's with the groups of the ports, which stand before
// those of the profile, and with what Compat says.
func (a *Attempt) options() (requestspec.Options, error) {
	options := a.Request.Options
	options.NumericSuffixes = options.NumericSuffixes || a.flow.placement.old()
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

// groupsText tells for each group what it asks for: "device_profile_0 PGPU:1
// with CUSTOM_A without CUSTOM_B".
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

// Port is a network port of the instance. An accelerated one gets its device
// from Cyborg, with an accelerator request of its own; the device is not a host
// device of the guest but belongs to the port's interface.
type Port struct {
	requestspec.Port
	// MAC and VLAN are those of the interface that is merged into the domain.
	// Without a MAC the interface is the caller's to make.
	MAC  string `json:"mac,omitempty"`
	VLAN int    `json:"vlan,omitempty"`
	// BindingProfile is what the port's binding:profile holds before.
	BindingProfile map[string]any `json:"binding_profile,omitempty"`
}

// BoundPort is a port with its device.
type BoundPort struct {
	Port string `json:"port"`
	ARQ  string `json:"arq"`
	// BindingProfile is what the port's binding:profile is to hold: what it held
	// before, with arq_uuid, pci_slot and physical_network. When the port is
	// unbound, domainxml.CleanBindingProfile takes them out.
	BindingProfile map[string]any `json:"binding_profile"`
}

func checkPorts(ports []Port) error {
	seen := make(map[string]bool, len(ports))
	for _, port := range ports {
		if err := checkUUID("port", port.UUID); err != nil {
			return err
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

// source is one device profile of the instance, the flavor's or a port's. Each
// is one POST of accelerator requests.
type source struct {
	profile requestspec.DeviceProfile
	port    Port // zero: the flavor's
}

func (s source) ofPort() bool { return s.port.UUID != "" }

// requesterID is the requester id of a group: of a port's profile it ends with
// the port's UUID, without a separator.
func (s source) requesterID(group int) string {
	return requestspec.PortRequesterID(group, s.port.UUID)
}

// mappings are those of this profile, under the requester ids of a flavor's.
func (s source) mappings(all matching.Mappings) matching.Mappings {
	if !s.ofPort() {
		return all
	}
	own := make(matching.Mappings, len(s.profile.Groups))
	for i := range s.profile.Groups {
		if providers, ok := all[s.requesterID(i)]; ok {
			own[requestspec.RequesterID(i)] = providers
		}
	}
	return own
}

// sources lists the profiles in Nova's order of POSTs: the flavor's, then those
// of the ports.
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

// accelerated reports whether the instance is to have accelerator requests.
func (a *Attempt) accelerated() bool {
	return a.Profile != nil || len(a.PortProfiles) > 0
}

// deviceGroups are the request groups of all profiles.
func (a *Attempt) deviceGroups() []requestspec.Group {
	groups := a.Spec.DeviceGroups()
	for _, s := range a.sources() {
		if !s.ofPort() {
			continue
		}
		for i := range s.profile.Groups {
			for _, group := range a.Spec.Groups {
				if group.RequesterID == s.requesterID(i) {
					groups = append(groups, group)
				}
			}
		}
	}
	return groups
}

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
