package glance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// The media types of patches. In the older one an operation is the member add, remove or replace, whose value is the
// path.
const (
	patchType    = "application/openstack-images-v2.1-json-patch"
	oldPatchType = "application/openstack-images-v2.0-json-patch"
)

// patchImage applies a JSON patch of one level.
func (s *Server) patchImage(c *simhttp.Call) error {
	ops, err := readPatch(c)
	if err != nil {
		return err
	}
	now := s.Clock.Now().UTC()
	var changed imageRow
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		if changed, err = s.findOwn(tx, c); err != nil {
			return
		}
		changed.Image = changed.clone()
		for _, op := range ops {
			if err == nil {
				err = changed.apply(op, c.Identity)
			}
		}
		if err == nil {
			err = changed.Image.check()
		}
		if err != nil {
			err = refusal(err)
			return
		}
		changed.UpdatedAt = now
		s.state.images.Put(tx, changed)
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, changed.body())
}

// operation is one operation of a patch.
type operation struct {
	op, key string
	value   json.RawMessage
	old     bool // of the older media type
}

// operations are the operations that there are.
var operations = []string{"add", "remove", "replace"}

// readPatch reads a patch of either media type.
func readPatch(c *simhttp.Call) ([]operation, error) {
	media, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";")
	if media = strings.TrimSpace(media); media != patchType && media != oldPatchType {
		c.W.Header().Set("Accept-Patch", oldPatchType+", "+patchType)
		return nil, &simhttp.Error{Status: http.StatusUnsupportedMediaType}
	}
	data, err := simhttp.ReadBody(c.Request)
	if err != nil {
		return nil, simhttp.Refuse(http.StatusRequestEntityTooLarge, "%v", err)
	}
	var body []map[string]json.RawMessage
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, simhttp.Refuse(http.StatusBadRequest, "Request body must be a JSON array of operation objects.")
	}
	ops := make([]operation, 0, len(body))
	for _, raw := range body {
		op, err := readOperation(raw, media == oldPatchType)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func readOperation(raw map[string]json.RawMessage, old bool) (o operation, err error) {
	available := strings.Join(operations, ", ")
	pathMember := "path"
	o.old = old
	switch {
	case old:
		for _, name := range operations {
			if _, there := raw[name]; there && o.op != "" {
				return o, simhttp.Refuse(http.StatusBadRequest, `Operation objects must contain only one member named "add", "remove", or "replace".`)
			} else if there {
				o.op, pathMember = name, name
			}
		}
		if o.op == "" {
			return o, simhttp.Refuse(http.StatusBadRequest, `Operation objects must contain exactly one member named "add", "remove", or "replace".`)
		}
	case raw["op"] == nil:
		return o, simhttp.Refuse(http.StatusBadRequest, "Unable to find `op` in JSON Schema change. It must be one of the following: %s.", available)
	default:
		if err := json.Unmarshal(raw["op"], &o.op); err != nil || !slices.Contains(operations, o.op) {
			return o, simhttp.Refuse(http.StatusBadRequest, "Invalid operation: `%s`. It must be one of the following: %s.", o.op, available)
		}
	}
	var path string
	if json.Unmarshal(raw[pathMember], &path) != nil {
		return o, simhttp.Refuse(http.StatusBadRequest, "Unable to find '%s' in JSON Schema change", pathMember)
	}
	if o.key, err = keyOf(path); err != nil {
		return o, err
	}
	o.value = raw["value"]
	if o.op != "remove" && o.value == nil {
		return o, simhttp.Refuse(http.StatusBadRequest, "Operation \"%s\" requires a member named \"value\".", o.op)
	}
	return o, nil
}

// keyOf is the name of the field or property that a JSON pointer leads to.
func keyOf(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "/")
	switch {
	case !ok:
		return "", simhttp.Refuse(http.StatusBadRequest, "Pointer `%s` does not start with \"/\".", path)
	case strings.Contains(rest, "/"):
		return "", simhttp.Refuse(http.StatusBadRequest, "Invalid JSON pointer for this resource: '%s'", path)
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(rest), nil
}

// apply does one operation of a patch.
func (i *Image) apply(o operation, who simhttp.Identity) error {
	_, isProperty := i.Properties[o.key]
	isField := slices.Contains(fields(), o.key)
	switch {
	case o.op == "remove" && isField:
		return simhttp.Refuse(http.StatusForbidden, "Property %s may not be removed.", o.key)
	case !isField && !isProperty && o.op != "add":
		return simhttp.Refuse(http.StatusConflict, "Property %s does not exist.", o.key)
	case o.op == "add" && o.old && (isField || isProperty):
		return simhttp.Refuse(http.StatusConflict, "Property %s already present.", o.key)
	case o.op == "replace" && o.key == "owner" && !who.HasRole("admin"):
		return simhttp.Refuse(http.StatusForbidden, "Owner can't be updated by non admin.")
	case o.op == "remove" && isProperty:
		delete(i.Properties, o.key)
		return nil
	}
	return i.set(o.key, o.value)
}

// putTag adds a tag to an image.
func (s *Server) putTag(c *simhttp.Call) error {
	return s.changeTags(c, func(i *Image, tag string) error {
		if !slices.Contains(i.Tags, tag) {
			i.Tags = append(i.Tags, tag)
			slices.Sort(i.Tags)
		}
		if err := i.check(); err != nil {
			return refusal(err)
		}
		return nil
	})
}

// deleteTag removes a tag from an image.
func (s *Server) deleteTag(c *simhttp.Call) error {
	return s.changeTags(c, func(i *Image, tag string) error {
		n := slices.Index(i.Tags, tag)
		if n < 0 {
			return &simhttp.Error{Status: http.StatusNotFound}
		}
		i.Tags = slices.Delete(i.Tags, n, n+1)
		return nil
	})
}

func (s *Server) changeTags(c *simhttp.Call, change func(i *Image, tag string) error) error {
	now := s.Clock.Now().UTC()
	var err error
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		var row imageRow
		if row, err = s.findOwn(tx, c); err != nil {
			return
		}
		row.Image = row.clone()
		if err = change(&row.Image, c.PathValue("tag")); err == nil {
			row.UpdatedAt = now
			s.state.images.Put(tx, row)
		}
	})
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}
