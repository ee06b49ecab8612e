package glance

import (
	"crypto/md5" //nolint:gosec // Glance's checksum field is MD5
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ErrImage is matched by the errors about an image that cannot be stored.
var ErrImage = errors.New("glance: bad image")

// ErrExists is matched by the error about an id that is taken.
var ErrExists = errors.New("glance: the id is taken")

// Image is one image. An image without data is queued, one with data is active.
type Image struct {
	// ID is a UUID; empty lets the server choose one.
	ID   string
	Name string
	// Owner is a project; empty is nobody's.
	Owner string
	// Visibility is public, community, shared or private; public if empty.
	Visibility                  string
	DiskFormat, ContainerFormat string
	Tags                        []string
	// Properties are what users add to an image, such as accel:function_id.
	Properties map[string]string
	// Data is nil for an image that has none yet.
	Data                 []byte
	CreatedAt, UpdatedAt time.Time
}

func (i Image) clone() Image {
	i.Tags, i.Properties, i.Data = slices.Clone(i.Tags), maps.Clone(i.Properties), slices.Clone(i.Data)
	return i
}

func (i Image) status() string {
	if i.Data == nil {
		return "queued"
	}
	return "active"
}

// visibilities are the values of the field.
func visibilities() []string { return []string{"public", "community", "shared", "private"} }

// maxText is the length of the longest text that Glance stores in a column.
const maxText = 255

// check refuses what Glance would.
func (i Image) check() error {
	switch {
	case uuid.Validate(i.ID) != nil || len(i.ID) != 36:
		return fmt.Errorf("%w: id %q is not a UUID", ErrImage, i.ID)
	case len(i.Name) > maxText:
		return fmt.Errorf("%w %s: the name has more than %d characters", ErrImage, i.ID, maxText)
	case !slices.Contains(visibilities(), i.Visibility):
		return fmt.Errorf("%w %s: visibility %q is none of %s", ErrImage, i.ID, i.Visibility, strings.Join(visibilities(), ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(i.Properties)) {
		if key == "" || len(key) > maxText || fieldName(key) {
			return fmt.Errorf("%w %s: property %q cannot be set", ErrImage, i.ID, key)
		}
	}
	return nil
}

// fieldName reports whether a property has the name of a field.
func fieldName(key string) bool { return slices.Contains(fields(), key) }

// fields are the names that Glance keeps for itself.
func fields() []string {
	return []string{
		"id", "name", "owner", "visibility", "status", "disk_format", "container_format", "tags", "created_at", "updated_at",
		"size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "os_hidden", "min_disk", "min_ram", "protected",
		"self", "file", "schema", "locations", "direct_url", "stores",
	}
}

// AddImage stores an image. The error matches [ErrImage] for one that cannot be stored
// and [ErrExists] for an id that is taken.
func (s *Server) AddImage(i Image) (Image, error) {
	i = i.clone()
	if i.ID == "" {
		i.ID = s.ids.UUID()
	}
	if i.Visibility == "" {
		i.Visibility = "public"
	}
	if err := i.check(); err != nil {
		return Image{}, err
	}
	i.CreatedAt = s.clock.Now()
	i.UpdatedAt = i.CreatedAt
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.images, func(other Image) bool { return other.ID == i.ID }) {
		return Image{}, fmt.Errorf("%w: image %s", ErrExists, i.ID)
	}
	s.images = append(s.images, i)
	return i.clone(), nil
}

// Images returns all images, oldest first.
func (s *Server) Images() []Image {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Image, 0, len(s.images))
	for _, i := range s.images {
		list = append(list, i.clone())
	}
	return list
}

// body is the image as clients see it: one flat object, the properties among the fields.
func (i Image) body() map[string]any {
	object := make(map[string]any, len(i.Properties)+20)
	for key, value := range i.Properties {
		object[key] = value
	}
	maps.Copy(object, map[string]any{
		"id": i.ID, "name": orNull(i.Name), "owner": orNull(i.Owner), "visibility": i.Visibility, "status": i.status(),
		"disk_format": orNull(i.DiskFormat), "container_format": orNull(i.ContainerFormat),
		"tags":       append([]string{}, i.Tags...),
		"created_at": i.CreatedAt.UTC().Format("2006-01-02T15:04:05Z"), "updated_at": i.UpdatedAt.UTC().Format("2006-01-02T15:04:05Z"),
		"size": nil, "virtual_size": nil, "checksum": nil, "os_hash_algo": nil, "os_hash_value": nil,
		"os_hidden": false, "min_disk": 0, "min_ram": 0, "protected": false,
		"self": "/v2/images/" + i.ID, "file": "/v2/images/" + i.ID + "/file", "schema": "/v2/schemas/image",
	})
	if i.Data != nil {
		object["size"] = len(i.Data)
		object["checksum"] = fmt.Sprintf("%x", md5.Sum(i.Data)) //nolint:gosec // as Glance does
	}
	return object
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// set gives a field or property a value of JSON. Fields that are not the user's are
// refused.
func (i *Image) set(key string, raw json.RawMessage) error {
	if key == "tags" {
		return json.Unmarshal(raw, &i.Tags)
	}
	if slices.Contains([]string{"min_disk", "min_ram", "protected", "os_hidden"}, key) {
		return nil // accepted, without a meaning here
	}
	var text string
	if string(raw) != "null" {
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("%w %s: %s is not a text", ErrImage, i.ID, key)
		}
	}
	for name, to := range map[string]*string{
		"name": &i.Name, "visibility": &i.Visibility, "disk_format": &i.DiskFormat, "container_format": &i.ContainerFormat,
		"owner": &i.Owner,
	} {
		if key == name {
			*to = text
			return nil
		}
	}
	if slices.Contains(fields(), key) {
		return fmt.Errorf("%w %s: attribute '%s' is read-only", ErrImage, i.ID, key)
	}
	if i.Properties == nil {
		i.Properties = make(map[string]string)
	}
	i.Properties[key] = text
	return nil
}
