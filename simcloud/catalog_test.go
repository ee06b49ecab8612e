package simcloud_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/simcloud"
)

// elsewhere is a service on a socket of its own, and what it was asked.
func elsewhere(t *testing.T, answer http.HandlerFunc) (url string, asked chan string) {
	t.Helper()
	asked = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		if r.Header.Get("X-Auth-Token") == "" {
			t.Errorf("%s %s came without a token", r.Method, r.URL.Path)
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// TestServicesElsewhere: the catalog and the list of endpoints name the Nova and the Glance that are not the cloud's, which
// get the events and are asked for bitstreams.
func TestServicesElsewhere(t *testing.T) {
	t.Parallel()
	nova, novaAsked := elsewhere(t, func(http.ResponseWriter, *http.Request) {})
	glance, glanceAsked := elsewhere(t, func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) })
	cloud := simcloud.Run(t, simcloud.Model{
		Catalog: map[string]string{"compute": nova + "/v2.1", "image": glance + "/", "network": "http://neutron.invalid:9696"},
		DeviceProfiles: []simcloud.DeviceProfile{{Name: "fake", Groups: []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}}}, {Name: "image", Groups: []map[string]string{{
			"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL_PAC_ARRIA10": "required", "accel:bitstream_id": "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001",
		}}}},
	})
	admin := login(t, cloud, "admin", "admin")
	var body struct {
		Catalog []struct {
			Type      string
			Endpoints []struct{ URL string }
		}
	}
	admin.do("GET", "/identity/v3/auth/catalog", "", nil, http.StatusOK, &body)
	got := map[string]string{}
	for _, service := range body.Catalog {
		got[service.Type] = service.Endpoints[0].URL
	}
	base := strings.TrimSuffix(got["placement"], "/placement")
	want := map[string]string{
		"identity": base + "/identity/v3", "placement": base + "/placement", "accelerator": base + "/accelerator/v2",
		"compute": nova + "/v2.1", "image": glance, "network": "http://neutron.invalid:9696",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
	admin.spawn(1, "fake", "FPGA:1", "CUSTOM_FAKE_DEVICE")
	if asked := <-novaAsked; asked != "POST /v2.1/os-server-external-events" {
		t.Errorf("nova was asked %s", asked)
	}
	arq := admin.createARQs("image")[0]
	provider, host := admin.claim("bbbbbbbb-0000-4000-8000-000000000002", "FPGA:1", "CUSTOM_FPGA_INTEL_PAC_ARRIA10")
	_, _ = admin.try("PATCH", "/accelerator/v2/accelerator_requests", "accelerator 2.0", `{"`+arq+`": [
		{"op": "add", "path": "/hostname", "value": "`+host+`"}, {"op": "add", "path": "/device_rp_uuid", "value": "`+provider+`"},
		{"op": "add", "path": "/instance_uuid", "value": "bbbbbbbb-0000-4000-8000-000000000002"}]}`)
	if asked := <-glanceAsked; !strings.HasPrefix(asked, "GET /v2/images/2f7d3a52") {
		t.Errorf("glance was asked %s", asked)
	}
	if _, err := simcloud.ParseModel([]byte(`{"catalog": {"placement": "http://x"}}`)); err == nil || !strings.Contains(err.Error(), "catalog: ") {
		t.Errorf("a Placement elsewhere: %v", err)
	}
}
