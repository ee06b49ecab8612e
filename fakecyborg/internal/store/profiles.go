package store

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// MaxName is the width of the columns of names, in characters.
const MaxName = 255

const (
	maxUUID = 36        // width of the columns of UUIDs, in characters
	maxText = 1<<16 - 1 // of those of texts, in bytes
)

// tooLong is the error of upstream's database.
func tooLong(column string) error {
	return Refuse(Uncoded, "Data too long for column '%s' at row 1", column)
}

// profileName is upstream's pattern, which lets one trailing newline pass.
var profileName = regexp.MustCompile(`^[a-zA-Z0-9-_]+\n?$`)

// CheckProfileName applies upstream's rules for the name of a device profile.
func CheckProfileName(name string) error {
	switch {
	case name == "":
		return Refuse(Uncoded, "DeviceProfile name needed.")
	case !profileName.MatchString(name):
		return Refuse(Invalid, "Device profile name must be of the form ^[a-zA-Z0-9-_]+$")
	}
	return nil
}

// Check applies limits that upstream lacks; with quirks only the limit of the number of requests. The name and the
// groups were already checked.
func (p Profile) Check(quirks bool) error {
	total := 0
	for i, g := range p.Groups {
		if !quirks {
			if err := g.checkUsable(i); err != nil {
				return err
			}
		}
		requests, _ := g.requests(quirks) // upstream reads the amounts when requests are made
		if total += max(requests, 0); total > maxRequests {
			return Refuse(Invalid, "Device profile asks for more than %d accelerators", maxRequests)
		}
	}
	switch {
	case len(p.Name) > MaxName:
		return tooLong("name")
	case len(p.UUID) > maxUUID:
		return tooLong("uuid")
	case p.Description != nil && len(*p.Description) > maxText:
		return tooLong("description")
	case quirks:
		return p.checkOwner()
	case !slices.ContainsFunc(p.Groups, Group.asks):
		return ErrNoResources
	case total == 0:
		return Refuse(Invalid, "Device profile asks for memory only, and for no accelerator")
	case strings.HasSuffix(p.Name, "\n"):
		return Refuse(Invalid, "Device profile name must be of the form ^[a-zA-Z0-9-_]+$")
	case p.UUID != "" && !uuids.Like(p.UUID):
		return Refuse(Invalid, "Expected a uuid but received %s.", p.UUID)
	}
	return nil
}

// checkOwner is upstream's refusal of a group with OWNER_CYBORG: upstream allows custom traits only.
func (p Profile) checkOwner() error {
	for _, g := range p.Groups {
		if _, ok := g.get(PrefixTrait + driver.TraitOwnerCyborg); ok {
			return Refuse(Invalid, "Unsupported trait name format %s, should start with CUSTOM_", driver.TraitOwnerCyborg)
		}
	}
	return nil
}

// Profiles iterates over the device profiles, oldest first.
func (t Tx) Profiles() iter.Seq[Profile] { return t.s.profiles.All(t.tx) }

// ProfileByName finds a profile by its name.
func (t Tx) ProfileByName(name string) (Profile, error) {
	if p, ok := t.s.profileByName.Get(t.tx, name); ok {
		return p, nil
	}
	return Profile{}, Refuse(NotFound, "Device Profile not found with name=%s", name)
}

// ProfileByUUID finds a profile by its UUID.
func (t Tx) ProfileByUUID(uuid string) (Profile, error) {
	if p, ok := t.s.profiles.byUUID.Get(t.tx, uuid); ok {
		return p, nil
	}
	return Profile{}, Refuse(NotFound, "Device Profile not found with uuid=%s", uuid)
}

// CreateProfile stores a checked profile.
func (t Tx) CreateProfile(p Profile, now time.Time) (Profile, error) {
	if _, err := t.ProfileByUUID(p.UUID); err == nil {
		return Profile{}, Refuse(BadState, "DeviceProfile with uuid %s already exists.", p.UUID)
	}
	if _, err := t.ProfileByName(p.Name); err == nil {
		return Profile{}, Refuse(Conflict, "A device_profile with name %s already exists.", p.Name)
	}
	if p.UUID == "" {
		p.UUID = t.s.profiles.newUUID(t, kindProfile, t.number(kindProfile))
	}
	p.ID, p.CreatedAt = t.s.profiles.ids.Next(t.tx), now
	t.s.profiles.Put(t.tx, p)
	return p, nil
}

// DeleteProfile deletes a profile that no request uses.
func (t Tx) DeleteProfile(p Profile) error {
	requests := 0
	for range t.s.arqByProfile.All(t.tx, p.Name) {
		requests++
	}
	if requests > 0 {
		return Refuse(BadState, "Cannot delete device profile %s: %d accelerator requests use it", p.Name, requests)
	}
	t.s.profiles.Delete(t.tx, p.ID)
	return nil
}
