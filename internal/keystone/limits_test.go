package keystone_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/registeredlimits"
	catalogued "github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// identityOf is gophercloud's client for a user of the server.
func identityOf(t *testing.T, s *keystone.Server, user, project string) *gophercloud.ServiceClient {
	t.Helper()
	opts := gophercloud.AuthOptions{
		IdentityEndpoint: "http://cloud.example:5000/identity/v3", Username: user, Password: keystone.Password, DomainName: "Default",
		Scope: &gophercloud.AuthScope{ProjectName: project, DomainName: "Default"},
	}
	if project == "" {
		opts.Scope = &gophercloud.AuthScope{System: true}
	}
	provider, err := openstack.NewClient(opts.IdentityEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	provider.HTTPClient.Transport = simhttp.NewTransport(s)
	if err := openstack.Authenticate(t.Context(), provider, opts); err != nil {
		t.Fatal(err)
	}
	client, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func placementID(t *testing.T, client *gophercloud.ServiceClient) string {
	t.Helper()
	page, err := catalogued.List(client, catalogued.ListOpts{ServiceType: "placement"}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := catalogued.ExtractServices(page)
	if err != nil || len(list) != 1 || list[0].Type != "placement" {
		t.Fatalf("services %+v, %v", list, err)
	}
	return list[0].ID
}

func projectOf(t *testing.T, s *keystone.Server, user, project string) string {
	t.Helper()
	token := login(t, s, user, project)
	header, err := s.VerifyToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return header.Get("X-Project-Id")
}

// limitWorld has a registered limit of class:FPGA, 2, and one of 7 for demo.
type limitWorld struct {
	server          *keystone.Server
	admin           *gophercloud.ServiceClient
	service, demo   string
	registered, own string // ids
}

func newLimitWorld(t *testing.T) *limitWorld {
	t.Helper()
	w := &limitWorld{server: newServer()}
	w.admin = identityOf(t, w.server, "admin", "admin")
	w.service, w.demo = placementID(t, w.admin), projectOf(t, w.server, "demo", "demo")
	made, err := registeredlimits.BatchCreate(t.Context(), w.admin, registeredlimits.BatchCreateOpts{
		{ServiceID: w.service, ResourceName: "class:FPGA", DefaultLimit: 2, RegionID: "RegionOne"},
		{ServiceID: w.service, ResourceName: "class:VCPU", DefaultLimit: 100, Description: "cores"},
	}).Extract()
	if err != nil || len(made) != 2 {
		t.Fatal(made, err)
	}
	own, err := limits.BatchCreate(t.Context(), w.admin, limits.BatchCreateOpts{
		{ServiceID: w.service, ResourceName: "class:FPGA", ResourceLimit: 7, RegionID: "RegionOne", ProjectID: w.demo},
	}).Extract()
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	w.registered, w.own = made[0].ID, own[0].ID
	return w
}

func TestUnifiedLimitsAsGophercloudReadsThem(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t)
	model, err := limits.GetEnforcementModel(t.Context(), w.admin).Extract()
	if err != nil || model.Name != "flat" {
		t.Fatal(model, err)
	}
	got, err := registeredlimits.Get(t.Context(), w.admin, w.registered).Extract()
	want := &registeredlimits.RegisteredLimit{
		ID: w.registered, ServiceID: w.service, RegionID: "RegionOne", ResourceName: "class:FPGA", DefaultLimit: 2,
		Links: map[string]any{"self": "http://cloud.example:5000/identity/v3/registered_limits/" + w.registered},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("registered limit, %v (-want +got):\n%s", err, diff)
	}
	page, err := registeredlimits.List(w.admin, registeredlimits.ListOpts{ServiceID: w.service, ResourceName: "class:VCPU"}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := registeredlimits.ExtractRegisteredLimits(page)
	if err != nil || len(list) != 1 || list[0].DefaultLimit != 100 || list[0].RegionID != "" || list[0].Description != "cores" {
		t.Errorf("filtered: %+v, %v", list, err)
	}
	limit, err := limits.Get(t.Context(), w.admin, w.own).Extract()
	if err != nil || limit.ResourceLimit != 7 || limit.ProjectID != w.demo || limit.DomainID != "" {
		t.Errorf("limit %+v, %v", limit, err)
	}
	nine := 9
	changed, err := limits.Update(t.Context(), w.admin, w.own, limits.UpdateOpts{ResourceLimit: &nine}).Extract()
	if err != nil || changed.ResourceLimit != 9 || changed.ResourceName != "class:FPGA" {
		t.Errorf("changed limit %+v, %v", changed, err)
	}
	if err := limits.Delete(t.Context(), w.admin, w.own).ExtractErr(); err != nil {
		t.Error(err)
	}
	three := 3
	renamed, err := registeredlimits.Update(t.Context(), w.admin, w.registered, registeredlimits.UpdateOpts{DefaultLimit: &three}).Extract()
	if err != nil || renamed.DefaultLimit != 3 || renamed.ServiceID != w.service {
		t.Errorf("changed registered limit %+v, %v", renamed, err)
	}
	if err := registeredlimits.Delete(t.Context(), w.admin, w.registered).ExtractErr(); err != nil {
		t.Error(err)
	}
	if _, err := registeredlimits.Get(t.Context(), w.admin, w.registered).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the deleted one: %v", err)
	}
}

func TestLimitsOfOtherProjectsAreNotShown(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t)
	tests := []struct {
		user, project string
		want          []string
	}{
		{"demo", "demo", []string{w.demo}},
		{"admin", "admin", nil}, // a project's token, though an administrator's
		{"admin", "", []string{w.demo}},
		{"nova", "service", nil},
	}
	for _, tt := range tests {
		t.Run(tt.user+" of "+tt.project, func(t *testing.T) {
			t.Parallel()
			client := identityOf(t, w.server, tt.user, tt.project)
			page, err := limits.List(client, limits.ListOpts{ServiceID: w.service}).AllPages(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			list, err := limits.ExtractLimits(page)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range list {
				got = append(got, l.ProjectID)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("projects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadLimitsAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t)
	admin, demo := login(t, w.server, "admin", "admin"), login(t, w.server, "demo", "demo")
	before := send(t, w.server, "GET", "/v3/registered_limits", "", "X-Auth-Token", admin).body
	object := func(pairs ...string) string {
		fields := map[string]string{"service_id": `"` + w.service + `"`, "resource_name": `"class:X"`, "default_limit": "1"}
		for i := 0; i < len(pairs); i += 2 {
			if fields[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
				delete(fields, pairs[i])
			}
		}
		var members []string
		for name, value := range fields {
			members = append(members, `"`+name+`":`+value)
		}
		return `{` + strings.Join(members, ",") + `}`
	}
	registered := func(pairs ...string) string { return `{"registered_limits":[` + object(pairs...) + `]}` }
	limit := func(pairs ...string) string {
		pairs = append([]string{"default_limit", "", "resource_limit", "1", "resource_name", `"class:VCPU"`, "project_id", `"` + w.demo + `"`}, pairs...)
		return `{"limits":[` + object(pairs...) + `]}`
	}
	tests := []struct {
		name, method, path, body, token string
		want                            int
		text                            string
	}{
		{"no token", "GET", "/v3/limits", "", "", 401, "requires authentication"},
		{"member creates", "POST", "/v3/registered_limits", registered(), demo, 403, "identity:create_registered_limits"},
		{"member changes", "PATCH", "/v3/limits/" + w.own, `{"limit":{"resource_limit":1}}`, demo, 403, "identity:update_limit"},
		{"member deletes", "DELETE", "/v3/registered_limits/" + w.registered, "", demo, 403, "identity:delete_registered_limit"},
		{"no JSON", "POST", "/v3/registered_limits", "{", admin, 400, "Malformed JSON"},
		{"no key", "POST", "/v3/registered_limits", `{}`, admin, 400, "Expecting to find registered_limits in request body"},
		{"no list", "POST", "/v3/registered_limits", `{"registered_limits":{}}`, admin, 400, "array"},
		{"empty list", "POST", "/v3/limits", `{"limits":[]}`, admin, 400, "too short"},
		{"no object", "POST", "/v3/limits", `{"limits":[null]}`, admin, 400, "object"},
		{"no service", "POST", "/v3/registered_limits", registered("service_id", ""), admin, 400, "'service_id' is a required property"},
		{"null service", "POST", "/v3/registered_limits", registered("service_id", "null"), admin, 400, "service_id"},
		{"unknown service", "POST", "/v3/registered_limits", registered("service_id", `"abc"`), admin, 400, "Expecting to find service_id in registered_limit"},
		{"illegal service", "POST", "/v3/registered_limits", registered("service_id", `"a b"`), admin, 400, "does not match"},
		{"unknown region", "POST", "/v3/registered_limits", registered("region_id", `"Mars"`), admin, 400, "region_id"},
		{"limit below -1", "POST", "/v3/registered_limits", registered("default_limit", "-2"), admin, 400, "minimum of -1"},
		{"limit too large", "POST", "/v3/registered_limits", registered("default_limit", "2147483648"), admin, 400, "maximum"},
		{"limit a text", "POST", "/v3/registered_limits", registered("default_limit", `"1"`), admin, 400, "'default_limit': is not of type 'integer'"},
		{"unknown field", "POST", "/v3/registered_limits", registered("colour", "1"), admin, 400, "'colour' was unexpected"},
		{"empty name", "POST", "/v3/registered_limits", registered("resource_name", `""`), admin, 400, "resource_name"},
		{"twice", "POST", "/v3/registered_limits", `{"registered_limits":[` + object() + `,` + object() + `]}`, admin, 409, "Duplicate entry"},
		{"not registered", "POST", "/v3/limits", limit("resource_name", `"class:Y"`), admin, 403, "no corresponding registered limit"},
		{"registered for one region only", "POST", "/v3/limits", limit("resource_name", `"class:FPGA"`), admin, 403, "no corresponding registered limit"},
		{"limit is there", "POST", "/v3/limits", limit("resource_name", `"class:FPGA"`, "region_id", `"RegionOne"`), admin, 409, "limit - Duplicate"},
		{"unknown project", "POST", "/v3/limits", limit("project_id", `"abc"`), admin, 400, "project_id"},
		{"of nobody", "POST", "/v3/limits", limit("project_id", ""), admin, 400, "exactly one of project_id and domain_id"},
		{"of project and domain", "POST", "/v3/limits", limit("domain_id", `"default"`), admin, 400, "exactly one"},
		{"rename a limit", "PATCH", "/v3/limits/" + w.own, `{"limit":{"resource_name":"class:VCPU"}}`, admin, 400, "'resource_name' was unexpected"},
		{"overridden one is kept", "DELETE", "/v3/registered_limits/" + w.registered, "", admin, 403, "because there are project limits"},
		{"overridden one is fixed", "PATCH", "/v3/registered_limits/" + w.registered, `{"registered_limit":{"default_limit":5}}`, admin, 403, w.registered},
		{"unknown registered limit", "GET", "/v3/registered_limits/x", "", admin, 404, "Could not find registered limit for x."},
		{"delete unknown", "DELETE", "/v3/limits/x", "", admin, 404, "Could not find limit for x."},
		{"change unknown", "PATCH", "/v3/limits/x", `{"limit":{"resource_limit":5}}`, admin, 404, "limit for x"},
		{"limit of another project", "GET", "/v3/limits/" + w.own, "", login(t, w.server, "nova", "service"), 403, "identity:get_limit"},
		{"no such method", "PUT", "/v3/limits", "", admin, 405, "not allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var header []string
			if tt.token != "" {
				header = []string{"X-Auth-Token", tt.token}
			}
			got := send(t, w.server, tt.method, tt.path, tt.body, header...)
			if got.StatusCode != tt.want || !strings.Contains(got.body, tt.text) || !strings.Contains(got.body, `"error":{"code":`) {
				t.Errorf("%d %s, want %d with %q", got.StatusCode, got.body, tt.want, tt.text)
			}
			if after := send(t, w.server, "GET", "/v3/registered_limits", "", "X-Auth-Token", admin).body; after != before {
				t.Errorf("the limits changed:\n%s\n%s", before, after)
			}
		})
	}
}

func TestServicesAndRegionsByWhichLimitsAreNamed(t *testing.T) {
	t.Parallel()
	s := newServer()
	admin := login(t, s, "admin", "admin")
	tests := []struct{ path, text string }{
		{"/v3/services?name=cyborg", `"type":"accelerator"`},
		{"/v3/regions", `"id":"RegionOne"`},
		{"/v3/regions/RegionOne", `"parent_region_id":null`},
		{"/v3/regions/Mars", "Could not find region: Mars."},
		{"/v3/services/Mars", "Could not find service: Mars."},
		{"/v3/services/" + placementID(t, identityOf(t, s, "admin", "admin")), `"name":"placement"`},
	}
	for _, tt := range tests {
		if got := send(t, s, "GET", tt.path, "", "X-Auth-Token", admin); !strings.Contains(got.body, tt.text) || strings.Contains(tt.path, "?") && strings.Contains(got.body, "placement") {
			t.Errorf("%s: %d %s, want %q", tt.path, got.StatusCode, got.body, tt.text)
		}
	}
	if got := send(t, s, "GET", "/v3/services", "", "X-Auth-Token", login(t, s, "demo", "demo")); got.StatusCode != http.StatusForbidden {
		t.Errorf("a member lists services: %d", got.StatusCode)
	}
}

// FuzzLimits: no body of a request is answered with a server error or stored in part.
func FuzzLimits(f *testing.F) {
	f.Add("registered_limits", []byte(`{"registered_limits":[{"service_id":"a","resource_name":"class:FPGA","default_limit":1}]}`))
	f.Add("limits", []byte(`{"limits":[{"service_id":null,"project_id":"x","resource_name":7,"resource_limit":1e99}]}`))
	f.Add("limits", []byte(`[]`))
	f.Add("registered_limits", []byte(`{"registered_limits":[{},null,[]]}`))
	s := newServer()
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if path != "limits" {
			path = "registered_limits"
		}
		admin := login(t, s, "admin", "admin")
		for _, method := range []string{"POST", "PATCH"} {
			target := "/v3/" + path
			if method == "PATCH" {
				target += "/x"
			}
			got := send(t, s, method, target, string(body), "X-Auth-Token", admin)
			if got.StatusCode < 400 || got.StatusCode > 499 || !strings.Contains(got.body, `"error":{"code":`) {
				t.Fatalf("%s %s %q: %d %s", method, target, body, got.StatusCode, got.body)
			}
		}
	})
}
