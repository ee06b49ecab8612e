package glance

import (
	"crypto/md5" //nolint:gosec // Glance's checksum field is MD5
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/sim"
)

// The values of an image's status.
const (
	statusQueued = "queued" // it has no data yet
	statusActive = "active"
)

// imageRow is an image. Its data are in a separate row, which images with the same data share.
type imageRow struct {
	Number int64 `json:"number"`
	Image
	Status string `json:"status"`
	Size   int    `json:"size,omitempty"`
	// SHA256, SHA512 and MD5 are the hashes of the data, in hexadecimal digits; empty without
	// data. An image of an earlier state has no SHA512.
	SHA256 string `json:"sha256,omitempty"`
	SHA512 string `json:"sha512,omitempty"`
	MD5    string `json:"md5,omitempty"`
}

// dataRow is the data of images.
type dataRow struct {
	SHA256 string `json:"sha256"`
	Data   []byte `json:"data"`
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// check refuses what Glance would, and what no image has.
func (i imageRow) check() error {
	switch {
	case (i.Status == statusActive) != (i.SHA256 != "") || i.Status != statusActive && i.Status != statusQueued:
		return fmt.Errorf("%w %s: status %q does not fit its data", ErrImage, i.ID, i.Status)
	case i.ID != uuids.Canonical(i.ID):
		return fmt.Errorf("%w: id %q is not in canonical form", ErrImage, i.ID)
	}
	return errors.Join(i.Image.check(), simhttp.CheckTime("created_at", i.CreatedAt), simhttp.CheckTime("updated_at", i.UpdatedAt))
}

// state is the tables of the service.
type state struct {
	db      *tables.DB
	images  *tables.Table[int64, imageRow]
	byID    tables.Unique[int64, imageRow]
	byData  tables.Index[int64, imageRow]
	data    *tables.Table[string, dataRow]
	numbers tables.Sequence
	ids     tables.Sequence // of generated ids
}

func newState() state {
	db := tables.New("image")
	s := state{db: db}
	s.images = tables.Add(db, tables.Spec[int64, imageRow]{
		Name: "images", Kind: "image", Key: func(r imageRow) int64 { return r.Number }, ID: func(r imageRow) string { return r.ID },
		Label: func(r imageRow) string { return r.Name }, Hidden: []string{"updated_at", "sha256", "sha512", "md5"}, Check: imageRow.check,
	})
	s.byID = s.images.Unique(func(r imageRow) string { return r.ID })
	s.byData = s.images.Index(func(r imageRow) string { return r.SHA256 })
	s.numbers = tables.KeySequence(s.images)
	s.ids = db.Sequence("ids")
	s.data = tables.Add(db, tables.Spec[string, dataRow]{
		Name: "data", Key: func(r dataRow) string { return r.SHA256 },
		Check: func(r dataRow) error {
			if hashOf(r.Data) != r.SHA256 {
				return errors.New("the SHA-256 does not match the data")
			}
			return nil
		},
	})
	db.Check(func(tx *tables.Tx) error {
		for r := range s.images.All(tx) {
			d, ok := s.data.Get(tx, r.SHA256)
			if r.SHA256 != "" && !ok || len(d.Data) != r.Size {
				return s.images.Errorf(r.Number, "there are no data with its SHA-256 and size")
			}
		}
		return nil
	})
	return s
}

// withData gives an image its data.
func (s *state) withData(tx *tables.Tx, r imageRow, data []byte) imageRow {
	checksum := md5.Sum(data) //nolint:gosec // as Glance does
	hash := sha512.Sum512(data)
	r.Status, r.Size, r.SHA256 = statusActive, len(data), hashOf(data)
	r.SHA512, r.MD5 = hex.EncodeToString(hash[:]), hex.EncodeToString(checksum[:])
	s.data.Put(tx, dataRow{r.SHA256, data})
	return r
}

// delete removes an image, and its data if no other image has the same.
func (s *state) delete(tx *tables.Tx, r imageRow) {
	s.images.Delete(tx, r.Number)
	if _, shared := s.byData.First(tx, r.SHA256); !shared {
		s.data.Delete(tx, r.SHA256)
	}
}

// State is the images and their data, for the state of a cloud.
func (s *Server) State() sim.Recorded {
	return simhttp.Recorded{Recorded: s.state.db, Service: s.Service}
}

// AddImage stores an image. The error matches [ErrImage] for one that cannot be stored
// and [ErrExists] for an id that exists.
func (s *Server) AddImage(i Image) (Image, error) {
	row, err := s.add(nil, i.clone())
	if err != nil {
		return Image{}, err
	}
	row.Data = i.Data
	return row.Image.clone(), nil
}

func (s *Server) add(log *tables.ChangeLog, i Image) (row imageRow, err error) {
	now := s.Clock.Now().UTC()
	s.state.db.Update(log, func(tx *tables.Tx) {
		if i.ID == "" {
			i.ID = simhttp.UUIDAt(s.cfg.Seed, "image", uint64(s.state.ids.Next(tx)))
		}
		row, err = s.put(tx, i, now)
		if err != nil {
			tx.Rollback()
		}
	})
	return row, err
}

func (s *Server) put(tx *tables.Tx, i Image, now time.Time) (imageRow, error) {
	if i.Visibility == "" {
		i.Visibility = "public"
	}
	if err := i.check(); err != nil {
		return imageRow{}, err
	}
	i.ID = uuids.Canonical(i.ID)
	if _, exists := s.state.byID.Get(tx, i.ID); exists {
		return imageRow{}, fmt.Errorf("%w: image %s", ErrExists, i.ID)
	}
	data := i.Data
	i.Data, i.CreatedAt, i.UpdatedAt = nil, now, now
	row := imageRow{Number: s.state.numbers.Next(tx), Image: i, Status: statusQueued}
	if data != nil {
		row = s.state.withData(tx, row, data)
	}
	s.state.images.Put(tx, row)
	return row, nil
}

// Images returns all images with their data, oldest first.
func (s *Server) Images() []Image {
	list := []Image{}
	s.state.db.View(func(tx *tables.Tx) {
		for r := range s.state.images.All(tx) {
			i := r.Image
			if d, ok := s.state.data.Get(tx, r.SHA256); ok {
				i.Data = d.Data
			}
			list = append(list, i.clone())
		}
	})
	return list
}

// find returns the image of the path, if the caller may see it.
func (s *Server) find(tx *tables.Tx, c *simhttp.Call) (imageRow, error) {
	id := c.PathValue("id")
	r, ok := s.state.byID.Get(tx, id)
	if !ok || !sees(c, r.Image) {
		return r, simhttp.Refuse(http.StatusNotFound, "No image found with ID %s", id)
	}
	return r, nil
}

// findOwn is find for a change.
func (s *Server) findOwn(tx *tables.Tx, c *simhttp.Call) (imageRow, error) {
	r, err := s.find(tx, c)
	if err == nil && !c.Identity.HasRole("admin") && r.Owner != c.Identity.Project {
		return r, simhttp.Refuse(http.StatusForbidden, "You are not permitted to modify this image.")
	}
	return r, err
}
