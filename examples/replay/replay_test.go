// Written from the record of a simulated cloud.

package replay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// request is one request of the record: when it was sent after the first one, whose
// tokens it carried (user/project; ? stands for one that is not valid), and what came of
// it.
type request struct {
	at                           time.Duration
	method, target               string
	login, serviceLogin, subject string
	header                       map[string]string
	body                         string
	status                       int // 0: no answer
	microversion                 string
}

// TestRecordedRequests sends the requests of the record to a cloud of the same model, at
// the same times, and expects the same statuses and microversions.
func TestRecordedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, err := simcloud.ParseModel([]byte(model))
		if err != nil {
			t.Fatal(err)
		}
		cloud, err := simcloud.New(t.Context(), model)
		if err != nil {
			t.Fatal(err)
		}
		defer cloud.Close()
		var rules []fault.Rule
		if err := json.Unmarshal([]byte(faults), &rules); err != nil {
			t.Fatal(err)
		}
		if err := cloud.Faults().Set(rules...); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i, r := range requests() {
			time.Sleep(time.Until(began.Add(r.at)))
			synctest.Wait()
			if got := r.send(t, cloud); got != r.outcome() {
				t.Errorf("request %d, %s %s: got %s, want %s", i+1, r.method, r.target, got, r.outcome())
			}
		}
	})
}

func (r request) outcome() string { return fmt.Sprintf("%d %s", r.status, r.microversion) }

// tokenOf stands in a body for the token of a login.
var tokenOf = regexp.MustCompile(`\[token of ([^\]]*)\]`)

// send sends the request and tells what came of it.
func (r request) send(t *testing.T, cloud *simcloud.Cloud) string {
	t.Helper()
	body := tokenOf.ReplaceAllStringFunc(r.body, func(text string) string { return token(t, cloud, tokenOf.FindStringSubmatch(text)[1]) })
	req, err := http.NewRequestWithContext(t.Context(), r.method, cloud.URL()+r.target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, login := range map[string]string{"X-Auth-Token": r.login, "X-Service-Token": r.serviceLogin, "X-Subject-Token": r.subject} {
		if login != "" {
			req.Header.Set(name, token(t, cloud, login))
		}
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	res, err := (&http.Client{Transport: cloud.Transport()}).Do(req)
	if err != nil {
		return request{}.outcome()
	}
	defer res.Body.Close()
	got := request{status: res.StatusCode}
	if r.microversion != "" {
		words := strings.Fields(res.Header.Get("OpenStack-API-Version"))
		if len(words) > 0 {
			got.microversion = words[len(words)-1]
		}
	}
	return got.outcome()
}

// token is a new token of a login.
func token(t *testing.T, cloud *simcloud.Cloud, login string) string {
	t.Helper()
	if login == "?" {
		return "not-valid"
	}
	user, project, _ := strings.Cut(login, "/")
	text, err := cloud.TokenFor(user, project)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func requests() []request {
	return []request{
		{
			at: 0, method: "POST", target: "/identity/v3/auth/tokens",
			header: map[string]string{"Content-Type": "application/json"},
			body: `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","password":"secret","domain":{"id":"default"}}}},
		"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}}`,
			status: 201, microversion: "",
		},
		{
			at: 0, method: "GET", target: "/placement/allocation_candidates?group_policy=none&resources=VCPU%3A1%2CMEMORY_MB%3A512&resourcesdevice_profile_0=PGPU%3A1",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "placement 1.36"},
			status: 200, microversion: "1.36",
		},
		{
			at: 0, method: "PUT", target: "/placement/allocations/00000000-0000-4000-8000-000000000001",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "placement 1.36"},
			body:   `{"allocations":{"53b63970-45e0-4fae-aea7-e02b31a6756c":{"resources":{"MEMORY_MB":512,"VCPU":1}},"eb5aa96a-5f9b-3316-948e-6d665a823e50":{"resources":{"PGPU":1}}},"consumer_generation":null,"mappings":{"":["53b63970-45e0-4fae-aea7-e02b31a6756c"],"device_profile_0":["eb5aa96a-5f9b-3316-948e-6d665a823e50"]},"project_id":"f9a72492f73a512384555cce8995b2a6","user_id":"u"}`,
			status: 204, microversion: "1.36",
		},
		{
			at: 0, method: "POST", target: "/accelerator/v2/accelerator_requests",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			body:   `{"device_profile_name":"gpu"}`,
			status: 201, microversion: "2.1",
		},
		{
			at: 0, method: "GET", target: "/accelerator/v2/accelerator_requests?instance=00000000-0000-4000-8000-000000000001",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			status: 503, microversion: "",
		},
		{
			at: 0, method: "GET", target: "/accelerator/v2/accelerator_requests?instanse=00000000-0000-4000-8000-000000000001",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			status: 400, microversion: "2.1",
		},
		{
			at: 0, method: "PATCH", target: "/accelerator/v2/accelerator_requests",
			login: "admin/admin", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			body: `{"1db22531-6e55-5b4e-a92b-3ac9d6391fef": [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/device_rp_uuid", "value": "eb5aa96a-5f9b-3316-948e-6d665a823e50"},
		{"op": "add", "path": "/instance_uuid", "value": "00000000-0000-4000-8000-000000000001"}, {"op": "add", "path": "/project_id", "value": "it's"}]}`,
			status: 403, microversion: "2.1",
		},
		{
			at: 0, method: "PATCH", target: "/accelerator/v2/accelerator_requests",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			body: `{"1db22531-6e55-5b4e-a92b-3ac9d6391fef": [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/device_rp_uuid", "value": "eb5aa96a-5f9b-3316-948e-6d665a823e50"},
		{"op": "add", "path": "/instance_uuid", "value": "00000000-0000-4000-8000-000000000001"}, {"op": "add", "path": "/project_id", "value": "it's"}]}`,
			status: 202, microversion: "2.1",
		},
		{
			at: 7200000000000, method: "GET", target: "/accelerator/v2/accelerator_requests",
			login: "?", serviceLogin: "?", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			status: 401, microversion: "",
		},
		{
			at: 7200000000000, method: "POST", target: "/identity/v3/auth/tokens",
			header: map[string]string{"Content-Type": "application/json"},
			body: `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","password":"secret","domain":{"id":"default"}}}},
		"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}}`,
			status: 201, microversion: "",
		},
		{
			at: 7200000000000, method: "GET", target: "/accelerator/v2/accelerator_requests?instance=00000000-0000-4000-8000-000000000001&bind_state=resolved",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			status: 200, microversion: "2.1",
		},
		{
			at: 7200000000000, method: "DELETE", target: "/accelerator/v2/accelerator_requests?instance=00000000-0000-4000-8000-000000000001",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "accelerator 2.1"},
			status: 204, microversion: "2.1",
		},
		{
			at: 7200000000000, method: "DELETE", target: "/placement/allocations/00000000-0000-4000-8000-000000000001",
			login: "admin/admin", serviceLogin: "nova/service", header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "placement 1.36"},
			status: 204, microversion: "1.36",
		},
		{
			at: 7200000000000, method: "GET", target: "/identity/v3/auth/tokens?nocatalog",
			login: "admin/admin", subject: "admin/admin", status: 200, microversion: "",
		},
		{
			at: 7200000000000, method: "POST", target: "/identity/v3/auth/tokens",
			login: "admin/admin", body: `{"auth": {"identity": {"methods": ["token"], "token": {"id": "[token of admin/admin]"}}}}`,
			status: 201, microversion: "",
		},
		{
			at: 7200000000000, method: "POST", target: "/identity/v3/users/fc0d6c38c3f753ce8527b7018939bf20/application_credentials",
			login: "admin/admin", body: `{"application_credential": {"name": "c", "secret": "[redacted]"}}`,
			status: 201, microversion: "",
		},
		// left out: "POST" "/identity/v3/auth/tokens": its secret is not kept
		{
			at: 7200000000000, method: "POST", target: "/identity/v3/auth/tokens",
			login: "admin/admin", body: `{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "demo", "domain": {"id": "default"}, "password": "[redacted]"}}}}}`,
			status: 401, microversion: "",
		},
		{
			at: 7200000000000, method: "POST", target: "/image/v2/images",
			login: "admin/admin", body: `{"id": "00000000-0000-4000-8000-000000000007", "name": "bits"}`,
			status: 201, microversion: "",
		},
		// left out: "PUT" "/image/v2/images/00000000-0000-4000-8000-000000000007/file": its 4 bytes of data are not kept
		{
			at: 7200000000000, method: "GET", target: "/image/v2/images/00000000-0000-4000-8000-000000000007",
			login: "admin/admin", status: 200, microversion: "",
		},
		{
			at: 7200000000000, method: "DELETE", target: "/identity/v3/auth/tokens",
			login: "admin/admin", subject: "admin/admin", status: 204, microversion: "",
		},
		{
			at: 7200000000000, method: "GET", target: "/image/v2/images",
			login: "?", status: 401, microversion: "",
		},
	}
}

// faults are the rules that were in force.
const faults = `[
	{
		"operation": "accelerator.arq.list",
		"subject": "00000000-0000-4000-8000-000000000001",
		"action": "status",
		"status": 503
	}
]`

// model is the cloud.
const model = `{
	"seed": 5,
	"region": "RegionOne",
	"users": [],
	"hosts": [
		{
			"name": "cn0",
			"vcpus": 64,
			"ram": 262144,
			"disk": 4000,
			"traits": [
				"COMPUTE_ACCELERATORS",
				"OWNER_NOVA"
			],
			"sysfs": {
				"devices": [
					{
						"address": "0000:3b:00.0",
						"vendor": "10de",
						"product": "15f8",
						"class": "0302",
						"driver": "vfio-pci",
						"numa_node": 0,
						"iommu_group": 20
					}
				]
			},
			"drivers": {
				"nvidia": {
					"host": ""
				}
			}
		}
	],
	"device_profiles": [
		{
			"name": "gpu",
			"groups": [
				{
					"resources:PGPU": "1"
				}
			]
		}
	],
	"flavors": [],
	"cyborg": {
		"seed": 5
	},
	"placement": {
		"seed": 5
	}
}`
