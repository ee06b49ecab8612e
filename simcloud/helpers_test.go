package simcloud_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// instance is a UUID that differs with n.
func instance(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// must ends a test whose set-up fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request without a token to a cloud.
func ask(t *testing.T, cloud *simcloud.Cloud, method, path, body string) (status int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	cloud.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// user is a plain HTTP client of a cloud.
type user struct {
	t       testing.TB
	cloud   *simcloud.Cloud
	token   string
	service string
}

// login gets a token over HTTP, as any client would.
func login(t testing.TB, cloud *simcloud.Cloud, name, project string) *user {
	t.Helper()
	u := &user{t: t, cloud: cloud}
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":%q,"password":%q,"domain":{"id":"default"}}}},
		"scope":{"project":{"name":%q,"domain":{"id":"default"}}}}}`, name, simcloud.Password, project)
	res := u.send("POST", "/identity/v3/auth/tokens", "", body)
	if res.status != http.StatusCreated {
		t.Fatalf("login: %d %s", res.status, res.body)
	}
	u.token = res.header.Get("X-Subject-Token")
	var err error
	u.service, err = cloud.ServiceToken(t.Context())
	must(t, err)
	return u
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (u *user) send(method, path, version, body string) answer {
	u.t.Helper()
	got, err := u.try(method, path, version, body)
	must(u.t, err)
	return got
}

// try sends a request that may get no answer.
func (u *user) try(method, path, version, body string) (answer, error) {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), method, u.cloud.URL()+path, strings.NewReader(body))
	must(u.t, err)
	for name, value := range map[string]string{
		"X-Auth-Token": u.token, "X-Service-Token": u.service, "OpenStack-API-Version": version, "Content-Type": "application/json",
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := (&http.Client{Transport: u.cloud.Transport()}).Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(data)}, err
}

// do expects a status and decodes the answer.
func (u *user) do(method, path, version string, body any, want int, into any) {
	u.t.Helper()
	var text string
	if body != nil {
		data, err := json.Marshal(body)
		must(u.t, err)
		text = string(data)
	}
	res := u.send(method, path, version, text)
	if res.status != want {
		u.t.Fatalf("%s %s: %d %s, want %d", method, path, res.status, res.body, want)
	}
	if into != nil {
		dec := json.NewDecoder(bytes.NewReader([]byte(res.body)))
		if err := dec.Decode(into); err != nil {
			u.t.Fatalf("%s %s: %v in %s", method, path, err, res.body)
		}
	}
}

const (
	placement   = "placement 1.36"
	accelerator = "accelerator 2.1"
)

// claim picks the first candidate for a group of resources and traits and claims it; it
// returns the provider of the group and its host's name.
func (u *user) claim(consumer, resources, traits string) (provider, host string) {
	u.t.Helper()
	query := url.Values{"resources": {"VCPU:1,MEMORY_MB:512"}, "resourcesdevice_profile_0": {resources}, "group_policy": {"none"}}
	if traits != "" {
		query.Set("requireddevice_profile_0", traits)
	}
	var candidates struct {
		Requests []struct {
			Allocations map[string]any      `json:"allocations"`
			Mappings    map[string][]string `json:"mappings"`
		} `json:"allocation_requests"`
	}
	u.do("GET", "/placement/allocation_candidates?"+query.Encode(), placement, nil, 200, &candidates)
	if len(candidates.Requests) == 0 {
		u.t.Fatalf("no candidates for %s %s", resources, traits)
	}
	chosen := candidates.Requests[0]
	u.do("PUT", "/placement/allocations/"+consumer, placement, map[string]any{
		"allocations": chosen.Allocations, "mappings": chosen.Mappings, "project_id": u.cloud.ProjectID("admin"), "user_id": "u", "consumer_generation": nil,
	}, 204, nil)
	provider = chosen.Mappings["device_profile_0"][0]
	i := slices.IndexFunc(u.cloud.Cyborg.Deployables(), func(d fakecyborg.StoredDeployable) bool { return d.ProviderUUID == provider })
	return provider, u.cloud.Cyborg.Deployables()[i].Hostname
}

// createARQs returns the uuids of the requests of a device profile.
func (u *user) createARQs(profile string) []string {
	u.t.Helper()
	var created struct {
		ARQs []struct {
			UUID string `json:"uuid"`
		} `json:"arqs"`
	}
	u.do("POST", "/accelerator/v2/accelerator_requests", accelerator, map[string]any{"device_profile_name": profile}, 201, &created)
	var ids []string
	for _, a := range created.ARQs {
		ids = append(ids, a.UUID)
	}
	return ids
}

func (u *user) bind(arq, instance, provider, host string) {
	u.t.Helper()
	var patches []map[string]string
	for path, value := range map[string]string{"/hostname": host, "/device_rp_uuid": provider, "/instance_uuid": instance, "/project_id": u.cloud.ProjectID("admin")} {
		patches = append(patches, map[string]string{"path": path, "op": "add", "value": value})
	}
	u.do("PATCH", "/accelerator/v2/accelerator_requests", accelerator, map[string]any{arq: patches}, 202, nil)
}

// spawned is an instance with one accelerator.
type spawned struct {
	uuid, provider, host string
	arq                  fakecyborg.ARQ
}

// spawn goes from candidates to a guest over HTTP.
func (u *user) spawn(n int, profile, resources, traits string) spawned {
	u.t.Helper()
	s := spawned{uuid: instance(n)}
	s.provider, s.host = u.claim(s.uuid, resources, traits)
	arqs := u.createARQs(profile)
	u.bind(arqs[0], s.uuid, s.provider, s.host)
	for _, a := range u.cloud.Cyborg.ARQs() {
		if a.UUID == arqs[0] {
			s.arq = a
		}
	}
	if s.arq.State != fakecyborg.StateBound {
		u.t.Fatalf("after the bind: %+v", s.arq)
	}
	s.define(u, domainOf(u.t, s.arq))
	return s
}

func (s spawned) define(u *user, domain string) {
	u.t.Helper()
	must(u.t, u.cloud.DefineGuest(sim.Guest{UUID: s.uuid, Host: s.host, Domain: domain}))
}

// remove undoes spawn.
func (u *user) remove(s spawned) {
	u.t.Helper()
	u.cloud.RemoveGuest(s.uuid)
	u.do("DELETE", "/accelerator/v2/accelerator_requests?instance="+s.uuid, accelerator, nil, 204, nil)
	u.do("DELETE", "/placement/allocations/"+s.uuid, placement, nil, 204, nil)
}

// domainOf is a domain with the devices of requests.
func domainOf(t testing.TB, arqs ...fakecyborg.ARQ) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("<domain type='kvm'><devices>")
	for _, a := range arqs {
		switch a.AttachHandleType {
		case driver.HandleMDEV:
			fmt.Fprintf(&b, "<hostdev mode='subsystem' type='mdev'><source><address uuid='%s'/></source></hostdev>", strings.ToUpper(a.AttachHandleUUID))
		case driver.HandlePCI:
			address, err := driver.PCIAddressOf(a.AttachHandleInfo)
			must(t, err)
			fmt.Fprintf(&b, "<hostdev mode='subsystem' type='pci'><source><address domain='0x%x' bus='0x%02x' slot='%d' function='0x%x'/></source></hostdev>",
				address.Domain, address.Bus, address.Device, address.Function)
		}
	}
	b.WriteString("</devices></domain>")
	return b.String()
}

// requestOK are options of a request that expects 200.
func requestOK() *gophercloud.RequestOpts {
	return &gophercloud.RequestOpts{OkCodes: []int{200}, KeepResponseBody: true}
}
