package glance

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// maxData is the size of the largest image, in bytes.
const maxData = 256 << 20

// defaultLimit is how many images a page has unless the client says otherwise.
const defaultLimit = 25

// sees reports whether the caller may know of an image.
func sees(c *simhttp.Call, i Image) bool {
	return c.Identity.HasRole("admin") || i.Visibility == "public" || i.Visibility == "community" || i.Owner == c.Identity.Project
}

// listImages searches by fields and properties; every argument that is not one of the
// list's own is a property.
func (s *Server) listImages(c *simhttp.Call) error {
	query, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return simhttp.Refuse(http.StatusBadRequest, "Invalid query string: %v", err)
	}
	limit := defaultLimit
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil {
			return simhttp.Refuse(http.StatusBadRequest, "limit param must be an integer")
		} else if limit < 0 {
			return simhttp.Refuse(http.StatusBadRequest, "limit param must be positive")
		}
	}
	passes, err := newFilters(query)
	if err != nil {
		return err
	}
	var matched []imageRow
	s.state.db.View(func(tx *tables.Tx) {
		for r := range s.state.images.All(tx) {
			if sees(c, r.Image) && passes.all(r) {
				matched = append(matched, r)
			}
		}
	})
	slices.Reverse(matched) // the newest first
	if marker := query.Get("marker"); marker != "" {
		n := slices.IndexFunc(matched, func(r imageRow) bool { return r.ID == marker })
		if n < 0 {
			return simhttp.Refuse(http.StatusBadRequest, "Invalid marker: Image could not be found.")
		}
		matched = matched[n+1:]
	}
	return c.JSON(http.StatusOK, listBody(matched, limit, query))
}

func listBody(matched []imageRow, limit int, query url.Values) map[string]any {
	body := map[string]any{"first": "/v2/images", "schema": "/v2/schemas/images"}
	if len(matched) > limit && limit > 0 {
		query.Set("marker", matched[limit-1].ID)
		body["next"] = "/v2/images?" + query.Encode()
	}
	bodies := []map[string]any{}
	for _, i := range matched[:min(limit, len(matched))] {
		bodies = append(bodies, i.body())
	}
	body["images"] = bodies
	return body
}

// refusal is the answer to what an image cannot be: 400, if the error does not say otherwise.
func refusal(err error) error {
	if errors.As(err, new(*simhttp.Error)) {
		return err
	}
	return simhttp.Refuse(http.StatusBadRequest, "%v", err)
}

func (s *Server) createImage(c *simhttp.Call) error {
	data, err := simhttp.ReadBody(c.Request)
	if err != nil {
		return simhttp.Refuse(http.StatusRequestEntityTooLarge, "%v", err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return simhttp.Refuse(http.StatusBadRequest, "Malformed JSON in request body.")
	}
	i := Image{Owner: c.Identity.Project, Visibility: "shared"}
	for key, raw := range object {
		if key == "id" {
			err = json.Unmarshal(raw, &i.ID)
		} else {
			err = i.set(key, raw)
		}
		if err != nil {
			return refusal(err)
		}
	}
	made, err := s.add(c.Log(), i)
	switch {
	case errors.Is(err, ErrExists):
		return simhttp.Refuse(http.StatusConflict, "%v", err)
	case err != nil:
		return simhttp.Refuse(http.StatusBadRequest, "%v", err)
	}
	c.W.Header().Set("Location", c.BaseURL()+c.Mount+"/v2/images/"+made.ID)
	return c.JSON(http.StatusCreated, made.body())
}

func (s *Server) getImage(c *simhttp.Call) (err error) {
	var found imageRow
	s.state.db.View(func(tx *tables.Tx) { found, err = s.find(tx, c) })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, found.body())
}

func (s *Server) deleteImage(c *simhttp.Call) (err error) {
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		var found imageRow
		found, err = s.findOwn(tx, c)
		switch refused := new(simhttp.Error); {
		case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
			err = simhttp.Refuse(http.StatusNotFound, "Failed to find image %s to delete", c.PathValue("id"))
		case err != nil:
		case found.Protected:
			err = simhttp.Refuse(http.StatusForbidden, "Image %s is protected and cannot be deleted.", found.ID)
		default:
			s.state.delete(tx, found)
		}
	})
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}

// getFile sends the data; an image without any is answered 204.
func (s *Server) getFile(c *simhttp.Call) (err error) {
	var found imageRow
	var row dataRow
	s.state.db.View(func(tx *tables.Tx) {
		found, err = s.find(tx, c)
		row, _ = s.state.data.Get(tx, found.SHA256)
	})
	switch {
	case err != nil:
		return err
	case found.Status == statusQueued:
		return c.Empty(http.StatusNoContent)
	}
	c.W.Header().Set("Content-Type", "application/octet-stream")
	c.W.Header().Set("Content-MD5", found.MD5) // in hexadecimal digits, as Glance does
	c.W.Header().Set("Content-Length", strconv.Itoa(len(row.Data)))
	_, _ = c.W.Write(row.Data) // the caller may be gone
	return nil
}

// putFile stores the data of a queued image.
func (s *Server) putFile(c *simhttp.Call) error {
	data, err := io.ReadAll(io.LimitReader(c.Body, maxData+1))
	if err != nil {
		return simhttp.Refuse(http.StatusBadRequest, "The data could not be read.")
	}
	if len(data) > maxData {
		return simhttp.Refuse(http.StatusRequestEntityTooLarge, "The image has more than %d bytes.", maxData)
	}
	now := s.Clock.Now().UTC()
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		var found imageRow
		switch found, err = s.findOwn(tx, c); {
		case err != nil:
		case found.Status == statusActive:
			err = simhttp.Refuse(http.StatusConflict, "Image status transition from active to saving is not allowed")
		default:
			found.UpdatedAt = now
			s.state.images.Put(tx, s.state.withData(tx, found, data))
		}
	})
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}

// getSchema says that an image may have any property of text, which clients ask before
// they set one.
func getSchema(c *simhttp.Call) error {
	properties := make(map[string]any)
	for _, name := range fields() {
		properties[name] = map[string]any{"type": []string{"null", "string"}}
	}
	properties["tags"] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	for _, name := range []string{"size", "virtual_size", "min_disk", "min_ram"} {
		properties[name] = map[string]any{"type": []string{"null", "integer"}}
	}
	for _, name := range []string{"protected", "os_hidden"} {
		properties[name] = map[string]any{"type": "boolean"}
	}
	return c.JSON(http.StatusOK, map[string]any{
		"name": "image", "properties": properties, "additionalProperties": map[string]any{"type": "string"},
	})
}
