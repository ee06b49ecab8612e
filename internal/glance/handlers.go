package glance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// maxData is the size of the largest image, in bytes.
const maxData = 256 << 20

// defaultLimit is how many images a page has unless the client says otherwise.
const defaultLimit = 25

// sees reports whether the caller may know of an image.
func sees(r *http.Request, i Image) bool {
	id := caller(r)
	return id.HasRole("admin") || i.Visibility == "public" || i.Visibility == "community" || i.Owner == id.Project
}

// find returns the index of an image that the caller may see, or -1 after it answered.
// It is called under the lock.
func (s *Server) find(w http.ResponseWriter, r *http.Request) int {
	id := r.PathValue("id")
	n := slices.IndexFunc(s.images, func(i Image) bool { return i.ID == id && sees(r, i) })
	if n < 0 {
		writeError(w, http.StatusNotFound, "Failed to find image "+id)
	}
	return n
}

// findOwn is find for a change.
func (s *Server) findOwn(w http.ResponseWriter, r *http.Request) int {
	n := s.find(w, r)
	if id := caller(r); n >= 0 && !id.HasRole("admin") && s.images[n].Owner != id.Project {
		writeError(w, http.StatusForbidden, "You are not permitted to modify this image.")
		return -1
	}
	return n
}

// listImages searches by fields and properties; every argument that is not one of the
// list's own is a property.
func (s *Server) listImages(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, "Invalid query string: "+err.Error())
		return
	}
	limit := defaultLimit
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			writeError(w, http.StatusBadRequest, "limit param must be an integer")
			return
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var matched []Image
	for _, i := range slices.Backward(s.images) { // the newest first
		if sees(r, i) && i.matches(query) {
			matched = append(matched, i)
		}
	}
	if marker := query.Get("marker"); marker != "" {
		n := slices.IndexFunc(matched, func(i Image) bool { return i.ID == marker })
		if n < 0 {
			writeError(w, http.StatusBadRequest, "Invalid marker: Image could not be found.")
			return
		}
		matched = matched[n+1:]
	}
	writeList(w, matched, limit, query)
}

func writeList(w http.ResponseWriter, matched []Image, limit int, query url.Values) {
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
	simhttp.WriteJSON(w, http.StatusOK, body)
}

// matches applies the filters of a list.
func (i Image) matches(query url.Values) bool {
	have := i.body()
	for key, values := range query {
		switch key {
		case "limit", "marker", "sort", "sort_key", "sort_dir", "member_status":
			continue
		case "tag":
			for _, tag := range values {
				if !slices.Contains(i.Tags, tag) {
					return false
				}
			}
			continue
		}
		value, there := have[key]
		if !there || !oneOf(fmt.Sprint(value), values[0]) {
			return false
		}
	}
	return true
}

// oneOf compares with a value, or with the list of "in:a,b".
func oneOf(have, want string) bool {
	list, ok := strings.CutPrefix(want, "in:")
	if !ok {
		return have == want
	}
	return slices.Contains(strings.Split(list, ","), have)
}

func (s *Server) createImage(w http.ResponseWriter, r *http.Request) {
	data, err := simhttp.ReadBody(r)
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		writeError(w, http.StatusBadRequest, "Malformed JSON in request body.")
		return
	}
	i := Image{Owner: caller(r).Project, Visibility: "shared"}
	for key, raw := range object {
		if key == "id" {
			err = json.Unmarshal(raw, &i.ID)
		} else {
			err = i.set(key, raw)
		}
		if err != nil {
			writeError(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	made, err := s.AddImage(i)
	switch {
	case errors.Is(err, ErrExists):
		writeError(w, http.StatusConflict, err.Error())
	case err != nil:
		writeError(w, http.StatusBadRequest, err.Error())
	default:
		simhttp.Note(r.Context(), sim.Change{Action: sim.Created, Kind: "image", ID: made.ID, What: made.Name})
		w.Header().Set("Location", base(r)+"/v2/images/"+made.ID)
		simhttp.WriteJSON(w, http.StatusCreated, made.body())
	}
}

func (s *Server) getImage(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.find(w, r); n >= 0 {
		simhttp.WriteJSON(w, http.StatusOK, s.images[n].body())
	}
}

// patchImage applies a JSON patch of one level.
func (s *Server) patchImage(w http.ResponseWriter, r *http.Request) {
	data, err := simhttp.ReadBody(r)
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(data, &ops); err != nil {
		writeError(w, http.StatusBadRequest, "Request body must be a JSON array of operation objects.")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.findOwn(w, r)
	if n < 0 {
		return
	}
	changed := s.images[n].clone()
	for _, op := range ops {
		if err := changed.apply(op.Op, op.Path, op.Value); err != nil {
			writeError(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	if err := changed.check(); err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	noteSteps(r, s.images[n], changed)
	changed.UpdatedAt = s.clock.Now()
	s.images[n] = changed
	simhttp.WriteJSON(w, http.StatusOK, changed.body())
}

// apply does one operation of a patch.
func (i *Image) apply(op, path string, value json.RawMessage) error {
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(path, "/"))
	switch {
	case !strings.HasPrefix(path, "/") || key == "" || strings.Contains(path[1:], "/"):
		return fmt.Errorf("%w %s: path %q of the patch", ErrImage, i.ID, path)
	case op == "remove":
		if _, there := i.Properties[key]; !there {
			return fmt.Errorf("%w %s: property %s does not exist", ErrImage, i.ID, key)
		}
		delete(i.Properties, key)
		return nil
	case op == "add" || op == "replace":
		return i.set(key, value)
	}
	return fmt.Errorf("%w %s: operation %q of the patch", ErrImage, i.ID, op)
}

func (s *Server) deleteImage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.findOwn(w, r); n >= 0 {
		simhttp.Note(r.Context(), sim.Change{Action: sim.Deleted, Kind: "image", ID: s.images[n].ID, What: s.images[n].Name})
		s.images = slices.Delete(s.images, n, n+1)
		w.WriteHeader(http.StatusNoContent)
	}
}

// getFile sends the data; an image without any is answered 204.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	n := s.find(w, r)
	if n < 0 {
		s.mu.RUnlock()
		return
	}
	data := s.images[n].Data // replaced as a whole, never written to
	s.mu.RUnlock()
	if data == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the caller may be gone
}

// putFile stores the data of a queued image.
func (s *Server) putFile(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxData+1))
	if err != nil {
		writeError(w, http.StatusBadRequest, "The data could not be read.")
		return
	}
	if len(data) > maxData {
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The image has more than %d bytes.", maxData))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.findOwn(w, r)
	switch {
	case n < 0:
	case s.images[n].Data != nil:
		writeError(w, http.StatusConflict, "Image status transition from active to saving is not allowed")
	default:
		s.images[n].Data, s.images[n].UpdatedAt = append([]byte{}, data...), s.clock.Now()
		noteData(r, s.images[n])
		w.WriteHeader(http.StatusNoContent)
	}
}

// getSchema says that an image may have any property of text, which clients ask before
// they set one.
func getSchema(w http.ResponseWriter, _ *http.Request) {
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
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{
		"name": "image", "properties": properties, "additionalProperties": map[string]any{"type": "string"},
	})
}
