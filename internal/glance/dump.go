package glance

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// ErrDump is matched by the errors of [Server.Load].
var ErrDump = errors.New("glance: bad dump")

// stateDump is the state of a service as JSON.
type stateDump struct {
	SchemaVersion int     `json:"schema_version"`
	IDs           dumpIDs `json:"ids"`
	// Images are there in the order in which they were made.
	Images []dumpImage `json:"images"`
}

// dumpIDs are positions in the sequences of identifiers.
type dumpIDs struct {
	Image   uint64 `json:"image"`
	Request uint64 `json:"request"`
}

type dumpImage struct {
	ID              string            `json:"id"`
	Name            string            `json:"name,omitempty"`
	Owner           string            `json:"owner,omitempty"`
	Visibility      string            `json:"visibility"`
	DiskFormat      string            `json:"disk_format,omitempty"`
	ContainerFormat string            `json:"container_format,omitempty"`
	Tags            []string          `json:"tags,omitempty"`
	Properties      map[string]string `json:"properties,omitempty"`
	// Data is null for an image that has none yet, and base64.
	Data    []byte    `json:"data"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Dump returns the images with their data as one JSON document with the field
// schema_version. The same state gives the same bytes, and a service that has loaded a
// dump gives the same dump.
func (s *Server) Dump() ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d := stateDump{
		SchemaVersion: simhttp.DumpSchema, IDs: dumpIDs{s.ids.Position(), s.service.IDs.Position()}, Images: []dumpImage{},
	}
	for _, i := range s.images {
		d.Images = append(d.Images, dumpImage{
			ID: i.ID, Name: i.Name, Owner: i.Owner, Visibility: i.Visibility, DiskFormat: i.DiskFormat, ContainerFormat: i.ContainerFormat,
			Tags: i.Tags, Properties: i.Properties, Data: i.Data, Created: i.CreatedAt.UTC(), Updated: i.UpdatedAt.UTC(),
		})
	}
	return json.MarshalIndent(d, "", "  ")
}

// Load makes the service what a dump says, in place of all it knew. A dump of another
// schema_version, with unknown fields, or with an image that could not be stored is
// refused; the error matches [ErrDump] and the service is as it was. It is for moments
// when nothing is going on.
func (s *Server) Load(data []byte) error {
	var d stateDump
	if err := simhttp.DecodeDump(data, &d, &d.SchemaVersion); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	var images []Image
	seen := make(map[string]bool, len(d.Images))
	for n, in := range d.Images {
		image, err := in.image()
		if err == nil && seen[in.ID] {
			err = fmt.Errorf("%w: image %s", ErrExists, in.ID)
		}
		if err != nil {
			return fmt.Errorf("%w: images[%d]: %w", ErrDump, n, err)
		}
		seen[in.ID] = true
		images = append(images, image)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images = images
	s.ids.Continue(d.IDs.Image)
	s.service.IDs.Continue(d.IDs.Request)
	return nil
}

// image checks an image as AddImage does.
func (in dumpImage) image() (Image, error) {
	i := Image{
		ID: in.ID, Name: in.Name, Owner: in.Owner, Visibility: in.Visibility, DiskFormat: in.DiskFormat, ContainerFormat: in.ContainerFormat,
		Tags: in.Tags, Properties: in.Properties, Data: in.Data, CreatedAt: in.Created, UpdatedAt: in.Updated,
	}
	if err := i.check(); err != nil {
		return Image{}, err
	}
	if err := errors.Join(simhttp.CheckTime("created", in.Created), simhttp.CheckTime("updated", in.Updated)); err != nil {
		return Image{}, fmt.Errorf("%w %s: %w", ErrImage, in.ID, err)
	}
	return i, nil
}
