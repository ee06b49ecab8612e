package fakecyborg

import (
	"encoding/json"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// parseProfile reads the body of a create, a list of one object, and checks it in upstream's
// order (cyborg/api/controllers/v2/device_profiles.py). Other fields are dropped, as upstream
// does.
func (s *Server) parseProfile(body json.RawMessage) (in store.Profile, err error) {
	list := itemsOf(body)
	if len(list) != 1 {
		return in, store.Refuse(store.Invalid, "Only one device profile allowed per POST request for now.")
	}
	if jsonKind(list[0]) != '{' {
		return in, store.Refuse(store.Uncoded, "device profile is not an object")
	}
	texts, err := textsOf("Device profile ", list[0], "name", "uuid", "description")
	if err != nil {
		return in, err
	}
	in.Name, in.UUID = texts["name"], texts["uuid"]
	if text, ok := texts["description"]; ok {
		in.Description = &text
	}
	if err := store.CheckProfileName(in.Name); err != nil {
		return in, err
	}
	for _, m := range membersOf(list[0]) {
		if m.key == "groups" {
			in.Groups, err = parseGroups(m.value, s.release.NoResources == groupRefused)
		}
	}
	switch {
	case err != nil:
		return in, err
	case len(in.Groups) == 0:
		return in, store.Refuse(store.Uncoded, "DeviceProfile needs groups field.")
	}
	return in, in.Check(s.cfg.UpstreamQuirks)
}

// parseGroups reads the list of groups and normalizes each. Upstream looks for the needed resources first, in
// whatever it can iterate over.
func parseGroups(list json.RawMessage, needsResources bool) ([]store.Group, error) {
	if needsResources && jsonKind(list) == '{' && len(membersOf(list)) > 0 {
		return nil, store.ErrNoResources
	}
	if kind := jsonKind(list); kind != '[' && kind != 'n' {
		return nil, store.Refuse(store.Uncoded, "'str' object has no attribute 'items'")
	}
	var groups []store.Group
	for i, item := range itemsOf(list) {
		g, err := parseGroup(i, item, needsResources)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func parseGroup(index int, object json.RawMessage, needsResources bool) (store.Group, error) {
	if kind := jsonKind(object); needsResources && (kind == '[' || kind == '"') {
		return nil, store.ErrNoResources
	}
	if jsonKind(object) != '{' {
		return nil, store.Refuse(store.Uncoded, "Device profile group %d is not an object", index)
	}
	var g store.Group
	for _, m := range membersOf(object) {
		item := store.GroupItem{Key: m.key}
		if jsonKind(m.value) != 'n' {
			text, err := scalarText(m.value)
			if err != nil {
				return nil, store.Refuse(store.Invalid, "Device profile group %d: value of %s: %v", index, m.key, err)
			}
			item.Value = &text
		}
		g = append(g, item)
	}
	return g.Normalize(needsResources)
}
