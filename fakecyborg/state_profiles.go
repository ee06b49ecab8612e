package fakecyborg

import (
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// profileRow is a device profile. Nothing in it changes but the count of the
// requests made from it.
type profileRow struct {
	record
	name        string
	description *string
	groups      []group
	arqs        int
}

// value is the row for the direct API.
func (p *profileRow) value() DeviceProfile {
	v := DeviceProfile{UUID: p.uuid, Name: p.name, CreatedAt: p.created}
	if p.description != nil {
		v.Description = *p.description
	}
	for _, g := range p.groups {
		v.Groups = append(v.Groups, g.plain())
	}
	return v
}

// profileByName finds a profile by its name, compared byte by byte.
func (st *state) profileByName(name string) (*profileRow, error) {
	for _, p := range st.profiles.rows {
		if p.name == name {
			return p, nil
		}
	}
	return nil, refuse(kindNotFound, "Device Profile not found with name=%s", name)
}

func (st *state) profileByUUID(uuid string) (*profileRow, error) {
	if p, ok := st.profiles.get(uuid); ok {
		return p, nil
	}
	return nil, refuse(kindNotFound, "Device Profile not found with uuid=%s", uuid)
}

// createProfile stores a validated profile.
func (st *state) createProfile(in profileInput, now time.Time) (*profileRow, error) {
	if _, err := st.profileByName(in.name); err == nil {
		return nil, refuse(kindConflict, "A device_profile with name %s already exists.", in.name)
	}
	id := in.uuid
	if id == "" {
		id = st.newUUID("device_profile")
	}
	if _, err := st.profileByUUID(id); err == nil {
		return nil, refuse(kindBadState, "DeviceProfile with uuid %s already exists.", id)
	}
	row := &profileRow{
		record: record{uuid: id, created: now},
		name:   in.name, description: in.description, groups: in.groups,
	}
	st.profiles.add(row)
	st.note(sim.Created, "device_profile", id, in.name)
	return row, nil
}

// deleteProfile removes a profile of which no request exists.
func (st *state) deleteProfile(p *profileRow) error {
	if p.arqs > 0 {
		return refuse(kindBadState, "Cannot delete device profile %s: %d accelerator requests use it", p.name, p.arqs)
	}
	st.profiles.remove(p)
	st.note(sim.Deleted, "device_profile", p.uuid, p.name)
	return nil
}
