package spawn

import (
	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// HandleOf is the attach handle of a bound ARQ as package domainxml takes it.
func HandleOf(arq cyborgclient.ARQ) domainxml.Handle {
	return domainxml.Handle{
		ARQ: arq.UUID, Type: string(arq.AttachHandleType), UUID: arq.AttachHandleUUID, Info: arq.AttachHandleInfo,
	}
}

// MatchingOf is an ARQ as package matching takes it.
func MatchingOf(arq cyborgclient.ARQ) matching.Unmatched {
	return matching.Unmatched{UUID: arq.UUID, Group: arq.DeviceProfileGroupID, DeviceProfileName: arq.DeviceProfileName}
}

// ProfileOf is a device profile of Cyborg as package requestspec takes it.
func ProfileOf(profile cyborgclient.DeviceProfile) requestspec.Profile {
	converted := requestspec.Profile{Name: profile.Name, Groups: profile.Groups}
	if profile.Description != nil {
		converted.Description = *profile.Description
	}
	return converted
}
