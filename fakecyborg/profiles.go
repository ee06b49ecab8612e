package fakecyborg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// parseProfile reads the body of a create, a list of one object, and checks it in upstream's
// order (cyborg/api/controllers/v2/device_profiles.py). Other fields are dropped, as upstream
// does.
func (s *Server) parseProfile(body json.RawMessage) (in store.Profile, err error) {
	profile, err := onlyProfile(body)
	if err != nil {
		return in, err
	}
	var name, groups json.RawMessage
	for _, m := range membersOf(profile) {
		switch m.key {
		case "name":
			name = m.value
		case "groups":
			groups = m.value
		}
	}
	switch {
	case !truthy(name):
		return in, raised("DeviceProfile name needed.")
	case jsonKind(name) != '"':
		return in, raised("expected string or bytes-like object, got '%s'", typeName(name))
	}
	if err := store.CheckProfileName(textOf(name)); err != nil {
		return in, err
	}
	if err := checkGroups(groups, s.release.NoResources == groupRefused); err != nil {
		return in, err
	}
	for _, m := range membersOf(profile) {
		if err := setField(&in, m); err != nil {
			return in, err
		}
	}
	return in, in.Check(s.cfg.UpstreamQuirks)
}

// onlyProfile is the one device profile of a body.
func onlyProfile(body json.RawMessage) (json.RawMessage, error) {
	items, err := iterate(body)
	if err != nil {
		return nil, raised("object of type '%s' has no len()", typeName(body))
	}
	if len(items) != 1 {
		return nil, store.Refuse(store.Invalid, "Only one device profile allowed per POST request for now.")
	}
	profile, err := first(body)
	if err != nil {
		return nil, err
	}
	if jsonKind(profile) != '{' {
		return nil, noAttribute(profile, "get")
	}
	return profile, nil
}

// checkGroups applies upstream's _validate_post_request to the groups. A release that needs
// resources searches for them first, in any value that it can iterate over.
func checkGroups(list json.RawMessage, needsResources bool) error {
	if !truthy(list) {
		return raised("DeviceProfile needs groups field.")
	}
	groups, err := iterate(list)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if keys, err := iterate(group); needsResources && err == nil && !slices.ContainsFunc(keys, isResource) {
			return store.ErrNoResources
		}
		if jsonKind(group) != '{' {
			return noAttribute(group, "items")
		}
		for _, m := range membersOf(group) {
			if err := checkGroupMember(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func isResource(key json.RawMessage) bool {
	return strings.HasPrefix(textOf(key), store.PrefixResources)
}

// cyborgClasses are the classes that a profile may request in addition to CUSTOM_ classes.
var cyborgClasses = []string{"FPGA", "GPU", "VGPU", "PGPU", "CUSTOM_QAT", "CUSTOM_NIC", "CUSTOM_SSD"}

func checkGroupMember(m member) error {
	if trait, ok := strings.CutPrefix(m.key, store.PrefixTrait); ok {
		return checkTrait(strings.Trim(trait, " "), m.value)
	}
	class, ok := strings.CutPrefix(m.key, store.PrefixResources)
	switch class = strings.Trim(class, " "); {
	case !ok && strings.HasPrefix(m.key, store.PrefixAccel):
		return nil
	case !ok:
		return store.Refuse(store.Invalid, "Device profile group keys must be of the form ^(resources:|trait:|accel:)")
	case !slices.Contains(cyborgClasses, class) && !strings.HasPrefix(class, "CUSTOM_"):
		return store.Refuse(store.Invalid, "Unsupported resource class %s", class)
	}
	switch jsonKind(m.value) {
	case '"':
		if _, err := store.ParseInteger(textOf(m.value)); err != nil {
			return store.Refuse(store.Invalid, "Resources number %s is invalid", textOf(m.value))
		}
	case 'n', '[', '{':
		return notInteger(m.value)
	}
	return nil
}

func checkTrait(name string, value json.RawMessage) error {
	if !strings.HasPrefix(name, "CUSTOM_") && name != driver.TraitOwnerCyborg {
		return store.Refuse(store.Invalid, "Unsupported trait name format %s, should start with CUSTOM_", name)
	}
	if text := textOf(value); text != "required" && text != "forbidden" {
		return store.Refuse(store.Invalid, "Unsupported trait value %s, the value must be one among ['required', 'forbidden']", str(value))
	}
	return nil
}

// setField sets a field of upstream's object (cyborg/objects/device_profile.py).
func setField(p *store.Profile, m member) (err error) {
	switch m.key {
	case "id":
		_, err = integerField(m)
	case "uuid":
		p.UUID, err = textField(m)
	case "name":
		p.Name, err = textField(m)
	case "description":
		if jsonKind(m.value) != 'n' {
			var text string
			text, err = textField(m)
			p.Description = &text
		}
	case "groups":
		p.Groups, err = groupsField(m.value)
	case "created_at", "updated_at":
		err = checkTimeField(m)
	}
	return err
}

// groupsField is a list of groups that checkGroups has accepted.
func groupsField(list json.RawMessage) (groups []store.Group, err error) {
	for i, object := range itemsOf(list) {
		var g store.Group
		for _, m := range membersOf(object) {
			item := store.GroupItem{Key: m.key}
			if jsonKind(m.value) != 'n' {
				text, err := textField(member{fmt.Sprintf("groups[%d][%s]", i, m.key), m.value})
				if err != nil {
					return nil, err
				}
				item.Value = &text
			}
			g = append(g, item)
		}
		groups = append(groups, g.Trim())
	}
	return groups, nil
}
