package spawn_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// endlessImages is a Glance whose list has always another page, in front of the cloud.
type endlessImages struct {
	next    http.RoundTripper
	queries []url.Values
}

// RoundTrip implements http.RoundTripper.
func (e *endlessImages) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/images") {
		return e.next.RoundTrip(req)
	}
	if e.queries = append(e.queries, req.URL.Query()); len(e.queries) > 20 {
		return nil, errors.New("too many requests")
	}
	page := `{"images": [{"id": "` + imageGzip + `", "status": "active", "accel:function_id": "another"}], "next": "/v2/images?marker=x"}`
	return answer(req, http.StatusOK, page), nil
}

// The image of a function is looked for in the region of the flow, by Glance itself.
func TestTheImageOfAFunctionIsLookedForByGlance(t *testing.T) {
	t.Parallel()
	s := newSite(t, worldOpts{model: programModel()})
	i := s.spawn(t, "fpga")
	provider := s.cloud.Provider(t)
	images := &endlessImages{next: provider.HTTPClient.Transport}
	provider.HTTPClient.Transport = images
	regions := map[string]string{}
	locate := provider.EndpointLocator
	provider.EndpointLocator = func(opts gophercloud.EndpointOpts) (string, error) {
		regions[opts.Type] = opts.Region
		opts.Region = ""
		return locate(opts)
	}
	s.connect(t, provider, spawn.WithEndpointOpts(gophercloud.EndpointOpts{Region: "North"}))
	_, err := s.flow.Program(t.Context(), spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionID: gzipID})
	if !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("got error %v, want ErrRequest", err)
	}
	if len(images.queries) != 2 || // a UUID is asked for in either spelling
		images.queries[0].Get("accel:function_id") != gzipID {
		t.Errorf("%d lists, asked for %v", len(images.queries), images.queries)
	}
	if regions["image"] != "North" {
		t.Errorf("the image service of region %q, want North", regions["image"])
	}
}
