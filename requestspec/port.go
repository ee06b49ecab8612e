package requestspec

import (
	"errors"
	"fmt"
	"regexp"
)

// Port has the fields of a Neutron port that concern accelerators.
type Port struct {
	// UUID identifies the port.
	UUID string `json:"id"`
	// VNICType is binding:vnic_type.
	VNICType string `json:"binding:vnic_type"`
	// DeviceProfile is the name of its device profile; empty for none.
	DeviceProfile string `json:"device_profile"`
}

// Accelerated reports whether the type of the port requires an accelerator.
func (p Port) Accelerated() bool {
	return p.VNICType == VNICAcceleratorDirect || p.VNICType == VNICAcceleratorDirectPhysical
}

// RequesterID returns the requester id of a group of the port's device profile:
// device_profile_<group><port uuid>, without a separator.
func (p Port) RequesterID(group int) string { return RequesterID(group) + p.UUID }

// profileError is Nova's DeviceProfileError.
func profileError(name, text string) error {
	return errors.New("Device profile name " + name + ": " + text)
}

const textPortUpgrade = "Port with cyborg profile is not available until upgrade finished."

var portUUID = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// PortGroups converts the device profile of a port to request groups for
// [Options].Groups, as nova/network/neutron.py does. A port without an accelerator has no groups. The rules:
//   - the port names the given device profile;
//   - [ParseProfile] accepts the profile, the sum of all its amounts is 1, and it
//     makes one accelerator request. Nova accepts a sum of 0 and the two requests of
//     a Xilinx card, and fails later;
//   - computeVersion, the lowest service version of all nova-compute services, is
//     at least [MinComputePort]; 0 means unknown and is accepted.
//
// The physical network of the port is not added as a trait, and the bandwidth of the
// port remains a separate group.
//
// Errors match [ErrInvalidPort] and have Nova's text where Nova has one; errors about the profile
// also match [ErrInvalidProfile].
func PortGroups(port Port, profile *Profile, computeVersion int) ([]Group, error) {
	if !port.Accelerated() {
		return nil, nil
	}
	fail := func(cause error) ([]Group, error) {
		return nil, fmt.Errorf("requestspec: %w %q: %w", ErrInvalidPort, port.UUID, cause)
	}
	if err := port.check(profile, computeVersion); err != nil {
		return fail(err)
	}
	groups, err := ParseProfile(profile.Name, profile.Groups)
	if err != nil {
		return fail(err)
	}
	sum, requests := int64(0), int64(0)
	for i := range groups {
		groups[i].RequesterID = port.RequesterID(i)
		requests += arqCount(groups[i])
		for _, amount := range groups[i].Resources {
			sum += int64(amount)
		}
	}
	if sum > 1 || requests > 1 {
		return fail(profileError(profile.Name, fmt.Sprintf("request multiple devices for single port. It requests %d", max(sum, requests))))
	}
	return groups, nil
}

func (p Port) check(profile *Profile, computeVersion int) error {
	switch {
	case !portUUID.MatchString(p.UUID):
		return errors.New("its id is not a UUID")
	case p.DeviceProfile == "":
		return profileError(p.DeviceProfile, "No device profile for port "+p.UUID+".")
	case computeVersion > 0 && computeVersion < MinComputePort:
		return fmt.Errorf("%s nova-compute has service version %d, need %d", textPortUpgrade, computeVersion, MinComputePort)
	case profile == nil:
		return profileError(p.DeviceProfile, "Expected 1 device profile but got nothing.")
	case profile.Name != p.DeviceProfile:
		return fmt.Errorf("it names device profile %q, but %q is given", p.DeviceProfile, profile.Name)
	}
	return nil
}
