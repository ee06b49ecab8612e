package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

var errNoGlance = errors.New("no image service is configured")

// fromGlance sends a GET to Glance, for JSON or for the data of an image. A status other than 2xx is an error.
func (c *Conductor) fromGlance(ctx context.Context, path string, data bool) (simhttp.Answer, error) {
	if c.cfg.Glance == nil {
		return simhttp.Answer{}, errNoGlance
	}
	call := simhttp.PeerCall{Method: http.MethodGet, Path: path, Data: data}
	if data {
		call.Header = map[string]string{"Accept": "*/*"}
	}
	got, err := c.cfg.Glance.Do(ctx, call)
	if err == nil && !got.OK() {
		err = fmt.Errorf("the image service answered %d to GET %s", got.Status, path)
	}
	return got, err
}

// DescribeImage reads the properties of an image of Glance.
func (c *Conductor) DescribeImage(ctx context.Context, id string) (store.Image, error) {
	got, err := c.fromGlance(ctx, "/images/"+url.PathEscape(id), false)
	switch {
	case got.Status == http.StatusNotFound:
		return store.Image{}, store.Refuse(store.NoReferent, "Image %s could not be found.", id)
	case errors.Is(err, errNoGlance):
		return store.Image{}, fmt.Errorf("image %s: %w", id, err)
	case err != nil:
		return store.Image{}, err
	}
	var fields map[string]json.RawMessage
	if err := got.Decode(&fields); err != nil {
		return store.Image{}, err
	}
	return imageOf(id, fields), nil
}

// imageOf is an image with the properties that Cyborg may read.
func imageOf(id string, fields map[string]json.RawMessage) store.Image {
	image := store.Image{ID: id, Properties: make(map[string]string)}
	for key, raw := range fields {
		var text string
		if strings.HasPrefix(key, store.PrefixAccel) && json.Unmarshal(raw, &text) == nil {
			image.Properties[key] = text
		}
	}
	return image
}

// findImage finds the image of a reference. For a function or a name, Glance must have exactly one bitstream.
func (c *Conductor) findImage(ctx context.Context, want store.BitstreamRef) (store.Image, error) {
	switch {
	case want.By != store.ByBitstreamID:
	case want.Value == want.GuestImage:
		return store.Image{}, fmt.Errorf("%s is the image of the instance, not a bitstream", want)
	default:
		return c.DescribeImage(ctx, want.Value)
	}
	var bitstreams, disks []map[string]json.RawMessage
	for _, value := range want.Spellings(c.cfg.Quirks) {
		query := url.Values{want.By.Property(): {value}}
		got, err := c.fromGlance(ctx, "/images?"+query.Encode(), false)
		if err != nil {
			return store.Image{}, fmt.Errorf("%s: %w", want, err)
		}
		var body struct {
			Images []map[string]json.RawMessage `json:"images"`
		}
		if err := got.Decode(&body); err != nil {
			return store.Image{}, err
		}
		for _, image := range body.Images {
			switch id := textIn(image, "id"); {
			case id != "" && id == want.GuestImage: // names what it needs
			case c.cfg.Quirks, !isDisk(image):
				bitstreams = append(bitstreams, image)
			default:
				disks = append(disks, image)
			}
		}
		if len(bitstreams) > 0 {
			return oneImage(want, bitstreams)
		}
	}
	return oneImage(want, disks)
}

// isDisk reports whether an image has the format of a virtual disk: next to bitstreams it is the image of a guest.
func isDisk(image map[string]json.RawMessage) bool {
	format := textIn(image, "disk_format")
	return format != "" && format != "raw"
}

// textIn is a field of an image, empty for null.
func textIn(image map[string]json.RawMessage, field string) (text string) {
	_ = json.Unmarshal(image[field], &text)
	return text
}

// oneImage is the only image of a list.
func oneImage(want store.BitstreamRef, images []map[string]json.RawMessage) (store.Image, error) {
	ids := make([]string, len(images))
	for i, fields := range images {
		if json.Unmarshal(fields["id"], &ids[i]) != nil {
			return store.Image{}, fmt.Errorf("%s: the image service lists an image without id", want)
		}
	}
	switch len(ids) {
	case 0:
		return store.Image{}, fmt.Errorf("%s: no image has it, want exactly one", want)
	case 1:
		return imageOf(ids[0], images[0]), nil
	}
	return store.Image{}, fmt.Errorf("%s: %d images have it, want exactly one: %s", want, len(ids), strings.Join(ids, ", "))
}

// readImage fetches a bitstream from Glance, and verifies it with Glance's metadata of the image, as upstream's
// client does.
func (c *Conductor) readImage(ctx context.Context, image string) ([]byte, error) {
	path := "/images/" + url.PathEscape(image)
	described, err := c.fromGlance(ctx, path, false)
	if err != nil {
		return nil, err
	}
	var expected integrity
	if err := described.Decode(&expected); err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	path += "/file"
	got, err := c.fromGlance(ctx, path, true)
	if err != nil {
		return nil, err
	}
	if got.Status != http.StatusOK {
		return nil, fmt.Errorf("the image service has no data for GET %s", path)
	}
	expected.header = got.Header.Get("Content-MD5")
	if err := expected.check(got.Body, c.cfg.Quirks); err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return got.Body, nil
}
