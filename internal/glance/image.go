package glance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// ErrImage is matched by the errors about an image that cannot be stored.
var ErrImage = errors.New("glance: bad image")

// ErrExists is matched by the error about an id that exists.
var ErrExists = errors.New("glance: the id exists")

// Image is one image. An image without data is queued, one with data is active.
type Image struct {
	// ID is a UUID; empty lets the server choose one.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Owner is a project, or empty.
	Owner string `json:"owner,omitempty"`
	// Visibility is public, community, shared or private; public if empty.
	Visibility      string   `json:"visibility"`
	DiskFormat      string   `json:"disk_format,omitempty"`
	ContainerFormat string   `json:"container_format,omitempty"`
	Tags            []string `json:"tags,omitempty"`
	// Protected is set for an image that cannot be deleted, Hidden for one that lists leave out.
	Protected bool `json:"protected,omitempty"`
	Hidden    bool `json:"os_hidden,omitempty"`
	MinDisk   int  `json:"min_disk,omitempty"` // GiB
	MinRAM    int  `json:"min_ram,omitempty"`  // MiB
	// Properties are set by users, such as accel:function_id.
	Properties map[string]string `json:"properties,omitempty"`
	// Data is nil for an image without data, and in rows.
	Data      []byte    `json:"-"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (i Image) clone() Image {
	i.Tags, i.Properties, i.Data = slices.Clone(i.Tags), maps.Clone(i.Properties), slices.Clone(i.Data)
	return i
}

// visibilities are the values of the field.
func visibilities() []string { return []string{"public", "community", "shared", "private"} }

// The formats of Glance's defaults.
var (
	diskFormats      = []string{"ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop", "gpt"}
	containerFormats = []string{"ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"}
)

// maxText is the length of the longest text that Glance stores in a column.
const maxText = 255

// check refuses what Glance would.
func (i Image) check() error {
	switch {
	case !uuids.Is(i.ID):
		return fmt.Errorf("%w: id %q is not a UUID", ErrImage, i.ID)
	case len(i.Name) > maxText:
		return fmt.Errorf("%w %s: the name has more than %d characters", ErrImage, i.ID, maxText)
	case !slices.Contains(visibilities(), i.Visibility):
		return fmt.Errorf("%w %s: visibility %q is not one of %s", ErrImage, i.ID, i.Visibility, strings.Join(visibilities(), ", "))
	}
	for _, format := range []struct {
		value string
		known []string
	}{{i.DiskFormat, diskFormats}, {i.ContainerFormat, containerFormats}} {
		if format.value != "" && !slices.Contains(format.known, format.value) {
			return fmt.Errorf("%w %s: Provided object does not match schema 'image': '%s' is not one of [None, %s]", ErrImage, i.ID, format.value, quoted(format.known))
		}
	}
	if i.MinDisk < 0 || i.MinRAM < 0 {
		return fmt.Errorf("%w %s: min_disk and min_ram are not negative", ErrImage, i.ID)
	}
	for _, tag := range i.Tags {
		if len(tag) > maxText {
			return fmt.Errorf("%w %s: a tag has more than %d characters", ErrImage, i.ID, maxText)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(i.Properties)) {
		if key == "" || len(key) > maxText || slices.Contains(fields(), key) {
			return fmt.Errorf("%w %s: property %q cannot be set", ErrImage, i.ID, key)
		}
	}
	return nil
}

// fields are the names that Glance keeps for itself.
func fields() []string {
	return []string{
		"id", "name", "owner", "visibility", "status", "disk_format", "container_format", "tags", "created_at", "updated_at",
		"size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "os_hidden", "min_disk", "min_ram", "protected",
		"self", "file", "schema", "locations", "direct_url", "stores",
	}
}

// body is the image as clients see it: one flat object, the properties among the fields.
func (i imageRow) body() map[string]any {
	object := make(map[string]any, len(i.Properties)+20)
	for key, value := range i.Properties {
		object[key] = value
	}
	maps.Copy(object, map[string]any{
		"id": i.ID, "name": orNull(i.Name), "owner": orNull(i.Owner), "visibility": i.Visibility, "status": i.Status,
		"disk_format": orNull(i.DiskFormat), "container_format": orNull(i.ContainerFormat),
		"tags":       append([]string{}, i.Tags...),
		"created_at": i.CreatedAt.UTC().Format("2006-01-02T15:04:05Z"), "updated_at": i.UpdatedAt.UTC().Format("2006-01-02T15:04:05Z"),
		"size": nil, "virtual_size": nil, "checksum": nil, "os_hash_algo": nil, "os_hash_value": nil,
		"os_hidden": i.Hidden, "min_disk": i.MinDisk, "min_ram": i.MinRAM, "protected": i.Protected,
		"self": "/v2/images/" + i.ID, "file": "/v2/images/" + i.ID + "/file", "schema": "/v2/schemas/image",
	})
	if i.Status == statusActive {
		object["size"], object["checksum"] = i.Size, i.MD5
	}
	if i.SHA512 != "" {
		object["os_hash_algo"], object["os_hash_value"] = "sha512", i.SHA512
	}
	return object
}

// quoted is a list as Python shows its items.
func quoted(list []string) string { return "'" + strings.Join(list, "', '") + "'" }

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// set gives a field or property a value of JSON. Fields that are not the user's are
// refused.
func (i *Image) set(key string, raw json.RawMessage) error {
	for name, to := range map[string]any{"tags": &i.Tags, "protected": &i.Protected, "os_hidden": &i.Hidden, "min_disk": &i.MinDisk, "min_ram": &i.MinRAM} {
		if key != name {
			continue
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return fmt.Errorf("%w %s: %s has the wrong type", ErrImage, i.ID, key)
		}
		slices.Sort(i.Tags)
		i.Tags = slices.Compact(i.Tags)
		return nil
	}
	settable := map[string]*string{
		"name": &i.Name, "visibility": &i.Visibility, "disk_format": &i.DiskFormat, "container_format": &i.ContainerFormat,
		"owner": &i.Owner,
	}
	to := settable[key]
	if to == nil && slices.Contains(fields(), key) {
		return simhttp.Refuse(http.StatusForbidden, "Attribute '%s' is read-only.", key)
	}
	if slices.Contains([]string{"location", "deleted", "deleted_at"}, key) || strings.HasPrefix(key, "os_glance") {
		return simhttp.Refuse(http.StatusForbidden, "Attribute '%s' is reserved.", key)
	}
	var text string
	if string(raw) != "null" {
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("%w %s: %s is not a text", ErrImage, i.ID, key)
		}
	}
	if to != nil {
		*to = text
		return nil
	}
	if i.Properties == nil {
		i.Properties = make(map[string]string)
	}
	i.Properties[key] = text
	return nil
}
