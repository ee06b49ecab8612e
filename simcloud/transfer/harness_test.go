package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// must ends a test whose set-up fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// instance is a UUID that differs with n.
func instance(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

const (
	placement   = "placement 1.39"
	accelerator = "accelerator 2.3"
)

// admin is a plain HTTP client of a cloud.
type admin struct {
	t              testing.TB
	cloud          *simcloud.Cloud
	token, service string
}

func login(t testing.TB, cloud *simcloud.Cloud) *admin {
	t.Helper()
	u := &admin{t: t, cloud: cloud}
	domain := map[string]string{"id": "default"}
	_, header := u.send("POST", "/identity/v3/auth/tokens", "", map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{
			"user": map[string]any{"name": "admin", "password": simcloud.Password, "domain": domain}}},
		"scope": map[string]any{"project": map[string]any{"name": "admin", "domain": domain}},
	}}, 201)
	u.token = header.Get("X-Subject-Token")
	var err error
	u.service, err = cloud.ServiceToken(t.Context())
	must(t, err)
	return u
}

// send expects a status and returns the answer.
func (u *admin) send(method, path, version string, body any, want int) ([]byte, http.Header) {
	u.t.Helper()
	text, err := json.Marshal(body)
	must(u.t, err)
	if body == nil {
		text = nil
	}
	req, err := http.NewRequestWithContext(u.t.Context(), method, u.cloud.URL()+path, bytes.NewReader(text))
	must(u.t, err)
	for name, value := range map[string]string{
		"X-Auth-Token": u.token, "X-Service-Token": u.service, "OpenStack-API-Version": version, "Content-Type": "application/json",
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := (&http.Client{Transport: u.cloud.Transport()}).Do(req)
	must(u.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		u.t.Fatalf("%s %s: %d %s (%v), want %d", method, path, res.StatusCode, data, err, want)
	}
	return data, res.Header
}

func (u *admin) get(path, version string, into any) {
	u.t.Helper()
	data, _ := u.send("GET", path, version, nil, 200)
	if err := json.Unmarshal(data, into); err != nil {
		u.t.Fatalf("%s: %v in %s", path, err, data)
	}
}

// hold gives instance n a device of the first deployable with the resource class and trait
// that has one left.
func hold(t testing.TB, cloud *simcloud.Cloud, n int, profile, class, trait string) {
	t.Helper()
	for _, d := range cloud.Cyborg.Deployables() {
		if d.ResourceClass() != class || trait != "" && !slices.Contains(d.Traits(), trait) {
			continue
		}
		root := cloud.ProviderUUID(d.Hostname)
		claim := placementsim.Claim{Consumer: instance(n), Project: cloud.ProjectID("admin"), User: "u", Allocations: []placementsim.Allocation{
			{Provider: root, Class: "VCPU", Used: 1}, {Provider: d.ProviderUUID, Class: class, Used: 1},
		}}
		if cloud.Placement.Claim(claim) != nil {
			continue
		}
		arqs, err := cloud.Cyborg.CreateARQs(profile, cloud.ProjectID("admin"))
		must(t, err)
		must(t, cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: d.Hostname, Provider: d.ProviderUUID, Instance: instance(n)}))
		return
	}
	t.Fatalf("no deployable with %s and %q has room", class, trait)
}

// release deletes all requests and allocations, and then nothing is in use.
func release(t *testing.T, cloud *simcloud.Cloud) {
	t.Helper()
	for _, a := range cloud.Cyborg.ARQs() {
		must(t, cloud.Cyborg.DeleteARQs(t.Context(), a.UUID))
	}
	consumers := make(map[string]bool)
	for _, a := range cloud.Placement.Allocations() {
		consumers[a.Consumer] = true
	}
	for consumer := range consumers {
		must(t, cloud.Placement.Release(consumer))
	}
	cloud.CheckNoLeaks(t)
}

func imported(t testing.TB, l Listing, opts ...simcloud.Option) *simcloud.Cloud {
	t.Helper()
	cloud, err := Import(t.Context(), l, opts...)
	must(t, err)
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	return cloud
}

// recorded is a listing of testdata.
func recorded(t testing.TB, name string) Listing {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	must(t, err)
	l, err := ParseListing(data)
	must(t, err)
	return l
}
