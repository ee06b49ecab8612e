package fakecyborg

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// regionProperty is the property of an image that names the type of region it
// was built for. Upstream has no such check; its specifications call the
// property differently from release to release.
const regionProperty = "accel:region_id"

// glanceImage is a bitstream image as Glance describes it.
type glanceImage struct {
	id         string
	properties map[string]string
}

func (g glanceImage) get(by selector) string { return g.properties[by.property()] }

// describeImage reads the properties of an image.
func (s *Server) describeImage(ctx context.Context, id string) (glanceImage, error) {
	if s.glance == nil {
		return glanceImage{}, fmt.Errorf("image %s: no image service is configured", id)
	}
	path := "/images/" + url.PathEscape(id)
	got, err := s.glance.do(ctx, call{method: http.MethodGet, path: path})
	if err != nil {
		return glanceImage{}, err
	}
	if got.status == http.StatusNotFound {
		return glanceImage{}, refuse(kindNoReferent, "Image %s could not be found.", id)
	}
	if !got.ok() {
		return glanceImage{}, fmt.Errorf("the image service answered %d to GET %s", got.status, path)
	}
	var fields map[string]json.RawMessage
	if err := got.decode(&fields); err != nil {
		return glanceImage{}, err
	}
	return imageOf(id, fields), nil
}

// imageOf keeps what Cyborg may ask of an image.
func imageOf(id string, fields map[string]json.RawMessage) glanceImage {
	g := glanceImage{id: id, properties: make(map[string]string)}
	for key, raw := range fields {
		var text string
		if strings.HasPrefix(key, prefixAccel) && json.Unmarshal(raw, &text) == nil {
			g.properties[key] = text
		}
	}
	return g
}

// findImage finds the image that a request wants. Of a function or a name,
// Glance must have exactly one.
func (s *Server) findImage(ctx context.Context, want image) (glanceImage, error) {
	if want.by == byBitstreamID {
		return s.describeImage(ctx, want.value)
	}
	if s.glance == nil {
		return glanceImage{}, fmt.Errorf("%s: no image service is configured", want)
	}
	query := url.Values{want.by.property(): {want.value}}
	got, err := s.glance.do(ctx, call{method: http.MethodGet, path: "/images?" + query.Encode()})
	if err != nil {
		return glanceImage{}, err
	}
	if !got.ok() {
		return glanceImage{}, fmt.Errorf("the image service answered %d to the search for %s", got.status, want)
	}
	var body struct {
		Images []map[string]json.RawMessage `json:"images"`
	}
	if err := got.decode(&body); err != nil {
		return glanceImage{}, err
	}
	return oneImage(want, body.Images)
}

// oneImage refuses none and several, naming them.
func oneImage(want image, images []map[string]json.RawMessage) (glanceImage, error) {
	ids := make([]string, len(images))
	for i, fields := range images {
		if json.Unmarshal(fields["id"], &ids[i]) != nil {
			return glanceImage{}, fmt.Errorf("%s: the image service lists an image without id", want)
		}
	}
	switch len(ids) {
	case 0:
		return glanceImage{}, fmt.Errorf("%s: no image has it, want exactly one", want)
	case 1:
		return imageOf(ids[0], images[0]), nil
	}
	return glanceImage{}, fmt.Errorf("%s: %d images have it, want exactly one: %s", want, len(ids), strings.Join(ids, ", "))
}

// readImage fetches a bitstream from Glance.
func (s *Server) readImage(ctx context.Context, image string) ([]byte, error) {
	if s.glance == nil {
		return nil, fmt.Errorf("no image service is configured")
	}
	path := "/images/" + url.PathEscape(image) + "/file"
	got, err := s.glance.do(ctx, call{method: http.MethodGet, path: path, header: map[string]string{"Accept": "*/*"}})
	switch {
	case err != nil:
		return nil, err
	case got.status != http.StatusOK:
		return nil, fmt.Errorf("the image service answered %d to GET %s", got.status, path)
	}
	return got.body, nil
}
