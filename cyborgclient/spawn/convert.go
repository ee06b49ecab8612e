package spawn

import (
	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// HandleOf converts the attach handle of a bound ARQ for package domainxml.
func HandleOf(arq cyborgclient.ARQ) domainxml.Handle {
	return domainxml.Handle{
		ARQ: arq.UUID, Type: string(arq.AttachHandleType), UUID: arq.AttachHandleUUID, Info: arq.AttachHandleInfo,
	}
}

// MatchingOf converts an ARQ for package matching.
func MatchingOf(arq cyborgclient.ARQ) matching.Unmatched {
	return matching.Unmatched{UUID: arq.UUID, Group: arq.DeviceProfileGroupID, DeviceProfileName: arq.DeviceProfileName}
}

// ProfileOf converts a device profile of Cyborg for package requestspec.
func ProfileOf(profile cyborgclient.DeviceProfile) requestspec.Profile {
	return requestspec.Profile{Name: profile.Name, Description: deref(profile.Description), Groups: profile.Groups}
}
