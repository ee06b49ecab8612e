package nova_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/nova"
)

func flavorServer(t *testing.T) *nova.Server {
	server := nova.New(nova.Config{Seed: 7, Flavors: []nova.Flavor{
		{Name: "small", VCPUs: 1, MemoryMB: 512, RootGB: 1},
		{Name: "accel.gpu", VCPUs: 4, MemoryMB: 8192, RootGB: 20, EphemeralGB: 5, SwapMB: 64, ExtraSpecs: map[string]string{"accel:device_profile": "gpu", "hw:x": "y"}},
		{Name: "big", VCPUs: 64, MemoryMB: 65536, RootGB: 100},
	}})
	t.Cleanup(server.Close)
	return server
}

// flavorsOf reads a list at a microversion, as a user without roles.
func flavorsOf(t *testing.T, server *nova.Server, path, version string) (list []map[string]any, next string) {
	t.Helper()
	got := send(t, server, "GET", path, "", "X-Auth-Token", "demo", "OpenStack-API-Version", "compute "+version)
	var body struct {
		Flavors []map[string]any
		Links   []struct{ Rel, Href string } `json:"flavors_links"`
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, got.StatusCode, got.body)
	}
	for _, l := range body.Links {
		if l.Rel != "next" {
			t.Errorf("link %+v", l)
		}
		next = l.Href
	}
	return body.Flavors, next
}

func names(list []map[string]any) (names []string) {
	for _, f := range list {
		name, _ := f["name"].(string)
		names = append(names, name)
	}
	return names
}

func TestFlavorsAsEachMicroversionShowsThem(t *testing.T) {
	t.Parallel()
	server := flavorServer(t)
	for version, want := range map[string]map[string]any{
		"2.1":  {"swap": ""},
		"2.54": {"swap": ""},
		"2.55": {"swap": "", "description": nil},
		"2.61": {"swap": "", "description": nil, "extra_specs": map[string]any{}},
		"2.75": {"swap": 0.0, "description": nil, "extra_specs": map[string]any{}},
	} {
		list, _ := flavorsOf(t, server, "/compute/v2.1/flavors/detail?minRam=0&sort_key=vcpus", version)
		small := list[0]
		id, _ := small["id"].(string)
		for key, value := range map[string]any{
			"id": id, "name": "small", "vcpus": 1.0, "ram": 512.0, "disk": 1.0, "rxtx_factor": 1.0,
			"OS-FLV-EXT-DATA:ephemeral": 0.0, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true,
			"links": []any{
				map[string]any{"rel": "self", "href": "http://cloud.example/compute/v2.1/flavors/" + id},
				map[string]any{"rel": "bookmark", "href": "http://cloud.example/compute/flavors/" + id},
			},
		} {
			want[key] = value
		}
		if diff := cmp.Diff(want, small); diff != "" {
			t.Errorf("%s: flavor (-want +got):\n%s", version, diff)
		}
		if gpu := list[1]; version == "2.75" && (gpu["swap"] != 64.0 || gpu["OS-FLV-EXT-DATA:ephemeral"] != 5.0) {
			t.Errorf("flavor %+v", gpu)
		}
		one := send(t, server, "GET", "/compute/v2.1/flavors/"+id, "", "X-Auth-Token", "demo", "OpenStack-API-Version", "compute "+version)
		var body map[string]any
		if err := json.Unmarshal([]byte(one.body), &body); err != nil || !cmp.Equal(map[string]any{"flavor": small}, body) {
			t.Errorf("%s: GET of one: %d %s", version, one.StatusCode, one.body)
		}
		brief, _ := flavorsOf(t, server, "/compute/v2.1/flavors?sort_key=vcpus", version)
		maps.DeleteFunc(want, func(key string, _ any) bool {
			return !slices.Contains([]string{"id", "name", "links", "description"}, key)
		})
		if diff := cmp.Diff(want, brief[0]); diff != "" {
			t.Errorf("%s: in a list (-want +got):\n%s", version, diff)
		}
	}
}

func TestFlavorsAreFilteredSortedAndPaged(t *testing.T) {
	t.Parallel()
	server := flavorServer(t)
	for query, want := range map[string][]string{
		"sort_key=name":                               {"accel.gpu", "big", "small"},
		"sort_key=name&sort_dir=desc":                 {"small", "big", "accel.gpu"},
		"sort_key=memory_mb&minRam=8192":              {"accel.gpu", "big"},
		"sort_key=root_gb&minDisk=21":                 {"big"},
		"sort_key=swap&sort_dir=desc&limit=1":         {"accel.gpu"},
		"sort_key=ephemeral_gb&sort_dir=desc&limit=1": {"accel.gpu"},
		"sort_key=created_at":                         {"small", "accel.gpu", "big"},
		"is_public=false&sort_key=name":               {"accel.gpu", "big", "small"}, // only administrators choose
		"limit=0":                                     nil,
	} {
		list, _ := flavorsOf(t, server, "/v2.1/flavors?"+query, "2.1")
		if diff := cmp.Diff(want, names(list)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	var all []string
	next := "/compute/v2.1/flavors/detail?limit=1&sort_key=name"
	for pages := 0; next != "" && pages < 5; pages++ {
		var page []map[string]any
		page, next = flavorsOf(t, server, strings.TrimPrefix(next, "http://cloud.example"), "2.1")
		all = append(all, names(page)...)
	}
	if !slices.Equal(all, []string{"accel.gpu", "big", "small"}) {
		t.Errorf("page by page: %v", all)
	}
	list, _ := flavorsOf(t, server, "/v2.1/flavors", "2.1")
	ids := []string{}
	for _, f := range list {
		id, _ := f["id"].(string)
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Errorf("not sorted by id: %v", ids)
	}
}

func TestFlavorRequestsThatNovaRefuses(t *testing.T) {
	t.Parallel()
	server := flavorServer(t)
	list, _ := flavorsOf(t, server, "/v2.1/flavors?sort_key=vcpus", "2.1")
	gpu, _ := list[1]["id"].(string)
	for _, tt := range []struct {
		method, path, version string
		status                int
		text                  string
	}{
		{"GET", "/v2.1/flavors?limit=-1", "2.1", 400, "Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'"},
		{"GET", "/v2.1/flavors?sort_key=color", "2.1", 400, "'color' is not one of ['created_at', "},
		{"GET", "/v2.1/flavors?sort_dir=up", "2.1", 400, "'up' is not one of ['asc', 'desc']"},
		{"GET", "/v2.1/flavors?minRam=x", "2.1", 400, "Invalid minRam filter [x]"},
		{"GET", "/v2.1/flavors/detail?minDisk=", "2.1", 400, "Invalid minDisk filter []"},
		{"GET", "/v2.1/flavors?is_public=maybe", "2.1", 400, "Invalid is_public filter [maybe]"},
		{"GET", "/v2.1/flavors?marker=x", "2.1", 400, "marker [x] not found"},
		{"GET", "/v2.1/flavors?color=red", "2.74", 200, `"small"`},
		{"GET", "/v2.1/flavors?color=red", "2.75", 400, "Additional properties are not allowed ('color' was unexpected)"},
		{"GET", "/v2.1/flavors?is_public=false", "2.1", 200, `"flavors":[]`},
		{"GET", "/v2.1/flavors?is_public=None", "2.1", 200, `"small"`},
		{"GET", "/v2.1/flavors/x", "2.1", 404, `{"itemNotFound":{"code":404,"message":"Flavor x could not be found."}}`},
		{"GET", "/v2.1/flavors/x/os-extra_specs", "2.1", 404, "Flavor x could not be found."},
		{"GET", "/v2.1/flavors/x/os-extra_specs/y", "2.1", 404, "Flavor x could not be found."},
		{"GET", "/v2.1/flavors/" + gpu + "/os-extra_specs", "2.1", 200, `{"extra_specs":{"accel:device_profile":"gpu","hw:x":"y"}}`},
		{"GET", "/v2.1/flavors/" + gpu + "/os-extra_specs/hw:x", "2.1", 200, `{"hw:x":"y"}`},
		{"GET", "/v2.1/flavors/" + gpu + "/os-extra_specs/hw:z", "2.1", 404, "Flavor " + gpu + " has no extra specs with key hw:z."},
		{"POST", "/v2.1/flavors", "2.1", 405, ""},
		{"DELETE", "/v2.1/flavors/" + gpu, "2.1", 405, ""},
		{"GET", "/v2.1/servers/detail", "2.1", 404, "docs/nova/run of gocyborg starts a real Nova"},
		{"GET", "/v2.1/images", "2.1", 404, "The resource could not be found."},
	} {
		got := send(t, server, tt.method, tt.path, "", "X-Auth-Token", "admin", "OpenStack-API-Version", "compute "+tt.version)
		var body any
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Errorf("%s: %v", tt.path, err)
		}
		if got.StatusCode != tt.status || !strings.Contains(got.body, tt.text) {
			t.Errorf("%s %s: got %d %s, want %d %s", tt.method, tt.path, got.StatusCode, got.body, tt.status, tt.text)
		}
	}
	if got := send(t, server, "GET", "/v2.1/flavors", ""); got.StatusCode != 401 {
		t.Errorf("without a token: %d", got.StatusCode)
	}
}

// FuzzFlavorQuery: no query breaks the lists.
func FuzzFlavorQuery(f *testing.F) {
	for _, query := range []string{"", "limit=1&marker=x", "limit=99999999999999999999", "minRam=-99999999999999999999", "sort_key=name&sort_key=swap", "%zz", "is_public=" + url.QueryEscape(" T ")} {
		f.Add(query)
	}
	server := nova.New(nova.Config{Flavors: []nova.Flavor{{Name: "a"}, {Name: "b"}}})
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, query string) {
		u := url.URL{Path: "/v2.1/flavors/detail", RawQuery: query}
		if _, err := http.NewRequest("GET", "http://cloud.example"+u.String(), http.NoBody); err != nil {
			t.Skip(err)
		}
		if got := send(t, server, "GET", u.String(), "", "X-Auth-Token", "admin"); got.StatusCode >= 500 {
			t.Errorf("%s: %d %s", query, got.StatusCode, got.body)
		}
	})
}
