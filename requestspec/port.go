package requestspec

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// ErrInvalidPort: a port that cannot get an accelerator by its device profile.
var ErrInvalidPort = errors.New("invalid port")

// The types of virtual NIC for which a port is backed by an accelerator. Nova's
// release note calls the second unsupported, though Nova takes it.
const (
	VNICAcceleratorDirect         = "accelerator-direct"
	VNICAcceleratorDirectPhysical = "accelerator-direct-physical"
)

// Port is a Neutron port as far as accelerators go.
type Port struct {
	// UUID identifies the port.
	UUID string `json:"id"`
	// VNICType is binding:vnic_type.
	VNICType string `json:"binding:vnic_type"`
	// DeviceProfile is the name of its device profile; empty for none.
	DeviceProfile string `json:"device_profile"`
}

// Accelerated reports whether the type of the port asks for an accelerator.
func (p Port) Accelerated() bool {
	return p.VNICType == VNICAcceleratorDirect || p.VNICType == VNICAcceleratorDirectPhysical
}

// PortRequesterID is the requester id of a group in the device profile of a
// port: device_profile_<group><port uuid>, without a separator.
func PortRequesterID(group int, port string) string { return RequesterID(group) + port }

// profileErrorText is the text of Nova's DeviceProfileError.
func profileErrorText(name, text string) string {
	return "Device profile name " + name + ": " + text
}

const textPortUpgrade = "Port with cyborg profile is not available until upgrade finished."

var portUUID = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// PortGroups turns the device profile of a port into request groups for
// [Options].Groups, as nova/network/neutron.py does. A port without an
// accelerator has none. The rules:
//   - an accelerated port names a device profile, which is the one given;
//   - the profile is one that [ParseProfile] accepts, and the sum of all its
//     amounts is 1. Nova lets a sum of 0 pass and fails later; so does it with the
//     two requests that Cyborg makes for a Xilinx card, which are refused here;
//   - computeVersion, the lowest service version of all nova-compute services, is
//     at least [MinComputePort]; 0 means not known, and that nothing is held back.
//
// The physical network of the port is not added as a trait, and the port's
// group of bandwidth stays a group of its own.
//
// Errors satisfy errors.Is with [ErrInvalidPort] and carry Nova's text where
// Nova has one; a bad profile satisfies [ErrInvalidProfile], too.
func PortGroups(port Port, profile *DeviceProfile, computeVersion int) ([]Group, error) {
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
		groups[i].RequesterID = PortRequesterID(i, port.UUID)
		requests += arqCount(groups[i])
		for _, amount := range groups[i].Resources {
			sum += int64(amount)
		}
	}
	if sum > 1 || requests > 1 {
		return fail(errors.New(profileErrorText(profile.Name, "request multiple devices for single port.") +
			" It asks for " + strconv.FormatInt(max(sum, requests), 10)))
	}
	return groups, nil
}

func (p Port) check(profile *DeviceProfile, computeVersion int) error {
	switch {
	case !portUUID.MatchString(p.UUID):
		return errors.New("its id is no UUID")
	case p.DeviceProfile == "":
		return errors.New(profileErrorText(p.DeviceProfile, "No device profile for port "+p.UUID+"."))
	case computeVersion > 0 && computeVersion < MinComputePort:
		return fmt.Errorf("%s nova-compute has service version %d, need %d", textPortUpgrade, computeVersion, MinComputePort)
	case profile == nil:
		return errors.New(profileErrorText(p.DeviceProfile, "Expected 1 device profile but got nothing."))
	case profile.Name != p.DeviceProfile:
		return fmt.Errorf("it names device profile %q, but %q is given", p.DeviceProfile, profile.Name)
	}
	return nil
}
