package store

import (
	"iter"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// AllAttributes iterates over the attributes of all deployables, oldest first.
func (t Tx) AllAttributes() iter.Seq[Attribute] { return t.s.attributes.All(t.tx) }

// Attributes lists the attributes of a deployable, oldest first.
func (t Tx) Attributes(deployable string) []Attribute {
	return slices.Collect(t.s.attributeByDeployable.All(t.tx, deployable))
}

// Attribute finds an attribute by its UUID.
func (t Tx) Attribute(uuid string) (Attribute, error) {
	if a, ok := t.s.attributes.byUUID.Get(t.tx, uuid); ok {
		return a, nil
	}
	return Attribute{}, Refuse(NotFound, "Attribute not found with uuid=%s", uuid)
}

// Check applies the limits of upstream's columns, and without quirks also limits that upstream lacks.
func (a Attribute) Check(quirks bool) error {
	most := maxText
	if !quirks {
		most = MaxName
	}
	switch {
	case len(a.UUID) > maxUUID:
		return tooLong("uuid")
	case len(a.Key) > most:
		return tooLong("key")
	case len(a.Value) > most:
		return tooLong("value")
	case !quirks && a.UUID != "" && !uuids.Like(a.UUID):
		return Refuse(Invalid, "Expected a uuid but received %s.", a.UUID)
	}
	return nil
}

// CreateAttribute stores a checked attribute of a user.
func (t Tx) CreateAttribute(a Attribute, now time.Time) (Attribute, error) {
	if a.UUID == "" {
		a.UUID = t.s.attributes.newUUID(t, kindAttribute, t.number(kindAttribute))
	}
	if _, err := t.Attribute(a.UUID); err == nil {
		return a, Refuse(BadState, "Attribute with uuid %s already exists.", a.UUID)
	}
	a.CreatedAt, a.ByUser = now, true
	return t.insertAttribute(a), nil
}

// DeleteAttribute deletes an attribute of a user or a driver.
func (t Tx) DeleteAttribute(a Attribute) { t.s.attributes.Delete(t.tx, a.ID) }

func (t Tx) addAttribute(d Deployable, key, value string, now time.Time) {
	t.insertAttribute(Attribute{
		UUID: t.s.texts.keep(t.s.attributes.newUUID(t, kindAttribute, d.Name+"\x00"+key)), CreatedAt: now, Deployable: d.UUID, Key: shared(key), Value: shared(value),
	})
}

func (t Tx) insertAttribute(a Attribute) Attribute {
	a.ID = t.s.attributes.ids.Next(t.tx)
	t.s.attributes.Put(t.tx, a)
	return a
}

// updateAttributes replaces the reported attributes of a deployable. Attributes of users are kept; upstream deletes
// them.
func (t Tx) updateAttributes(d Deployable, spec driver.Deployable, now time.Time) {
	t.LoseTraits(d.UUID, spec.Traits, now)
	old, reported := t.Attributes(d.UUID), spec.AttributeList()
	wanted := make(map[string]bool, len(reported))
	for _, r := range reported {
		wanted[r.Key] = true
		i := slices.IndexFunc(old, func(a Attribute) bool { return a.Key == r.Key && !a.ByUser })
		switch {
		case i < 0:
			t.addAttribute(d, r.Key, r.Value, now)
		case old[i].Value != r.Value:
			a := old[i]
			a.Value, a.UpdatedAt = r.Value, now
			t.s.attributes.Put(t.tx, a)
		}
	}
	for _, a := range old {
		if (!a.ByUser || t.s.cfg.Quirks) && !wanted[a.Key] {
			t.DeleteAttribute(a)
		}
	}
}

// Reported returns a deployable as it is in Placement, without attributes of users.
func (t Tx) Reported(d Deployable) driver.Deployable {
	spec, _ := t.ReportedOrAdded(d)
	return spec
}

// ReportedOrAdded returns the result of Reported, and whether users have added attributes.
func (t Tx) ReportedOrAdded(d Deployable) (spec driver.Deployable, byUser bool) {
	spec = driver.Deployable{Name: d.Name, DriverName: d.DriverName, NumAccelerators: d.Total, Resources: d.Resources}
	list := make([]driver.Attribute, 0, 8)
	for a := range t.s.attributeByDeployable.All(t.tx, d.UUID) {
		if byUser = byUser || a.ByUser; !a.ByUser {
			list = append(list, driver.Attribute{Key: a.Key, Value: a.Value})
		}
	}
	spec.SetAttributeList(list)
	return spec, byUser
}
