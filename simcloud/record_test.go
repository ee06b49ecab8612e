package simcloud_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// oneGPU is a model of one host with one GPU.
func oneGPU() simcloud.Model {
	node, group := 0, 20
	return simcloud.Model{
		Seed: 5, Users: []simcloud.User{}, Flavors: []simcloud.Flavor{},
		Hosts: []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Devices: []sysfs.PCIDevice{{
			Address: "0000:3b:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "vfio-pci", NUMANode: &node, IOMMUGroup: &group,
		}}}}},
		DeviceProfiles: []simcloud.DeviceProfile{{Name: "gpu", Groups: []map[string]string{{"resources:PGPU": "1"}}}},
	}
}

// recorded is a cloud with the requests of one instance, from the login to the deletion,
// with refusals, a fault and a misspelt key.
func recorded(t *testing.T) *simcloud.Cloud {
	t.Helper()
	clock := manual()
	cloud := simcloud.Run(t, oneGPU(), simcloud.WithClock(clock))
	must(t, cloud.Faults().Set(fault.Rule{Operation: fault.ARQList, Subject: instance(1), Action: fault.Status, Status: 503}))
	u := login(t, cloud, "admin", "admin")
	server := instance(1)
	provider, host := u.claim(server, "PGPU:1", "")
	arq := u.createARQs("gpu")[0]
	u.do("GET", "/accelerator/v2/accelerator_requests?instance="+server, accelerator, nil, 503, nil)
	u.do("GET", "/accelerator/v2/accelerator_requests?instanse="+server, accelerator, nil, 400, nil)
	patch := fmt.Sprintf(`{%q: [{"op": "add", "path": "/hostname", "value": %q}, {"op": "add", "path": "/device_rp_uuid", "value": %q},
		{"op": "add", "path": "/instance_uuid", "value": %q}, {"op": "add", "path": "/project_id", "value": "it's"}]}`, arq, host, provider, server)
	bind := func(want int) {
		if got := u.send("PATCH", "/accelerator/v2/accelerator_requests", accelerator, patch); got.status != want {
			t.Fatalf("bind: %d %s, want %d", got.status, got.body, want)
		}
	}
	service := u.service
	u.service = ""
	bind(http.StatusForbidden)
	u.service = service
	bind(http.StatusAccepted)
	clock.Advance(2 * time.Hour)
	u.do("GET", "/accelerator/v2/accelerator_requests", accelerator, nil, 401, nil)
	*u = *login(t, cloud, "admin", "admin")
	u.do("GET", "/accelerator/v2/accelerator_requests?instance="+server+"&bind_state=resolved", accelerator, nil, 200, nil)
	u.do("DELETE", "/accelerator/v2/accelerator_requests?instance="+server, accelerator, nil, 204, nil)
	u.do("DELETE", "/placement/allocations/"+server, placement, nil, 204, nil)
	u.useTokens(t)
	return cloud
}

// useTokens shows the user's token, creates others from it and revokes it, and uploads an
// image.
func (u *user) useTokens(t *testing.T) {
	t.Helper()
	const tokens = "/identity/v3/auth/tokens"
	send := func(method, path, body string, want int, header ...string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, u.cloud.URL()+path, strings.NewReader(body))
		must(t, err)
		req.Header.Set("X-Auth-Token", u.token)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := (&http.Client{Transport: u.cloud.Transport()}).Do(req)
		must(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != want {
			t.Fatalf("%s %s: %d %s, %v, want %d", method, path, res.StatusCode, text, err, want)
		}
		return string(text)
	}
	var mine struct {
		Token struct{ User struct{ ID string } }
	}
	must(t, json.Unmarshal([]byte(send("GET", tokens+"?nocatalog", "", 200, "X-Subject-Token", u.token)), &mine))
	send("POST", tokens, `{"auth": {"identity": {"methods": ["token"], "token": {"id": "`+u.token+`"}}}}`, 201)
	var made struct {
		Credential struct{ ID string } `json:"application_credential"`
	}
	credential := send("POST", "/identity/v3/users/"+mine.Token.User.ID+"/application_credentials", `{"application_credential": {"name": "c", "secret": "s3cr3t"}}`, 201)
	must(t, json.Unmarshal([]byte(credential), &made))
	send("POST", tokens, `{"auth": {"identity": {"methods": ["application_credential"], "application_credential": {"id": "`+made.Credential.ID+`", "secret": "s3cr3t"}}}}`, 201)
	send("POST", tokens, `{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "demo", "domain": {"id": "default"}, "password": "wr0ng"}}}}}`, 401)
	const image = "/image/v2/images"
	send("POST", image, `{"id": "`+instance(7)+`", "name": "bits"}`, 201)
	send("PUT", image+"/"+instance(7)+"/file", "0101", 204, "Content-Type", "application/octet-stream")
	send("GET", image+"/"+instance(7), "", 200)
	send("DELETE", tokens, "", 204, "X-Subject-Token", u.token)
	send("GET", image, "", 401)
}

func TestTheRecordHasNoSecrets(t *testing.T) {
	t.Parallel()
	cloud := recorded(t)
	u := login(t, cloud, "demo", "demo")
	text := fmt.Sprintf("%#v", cloud.Requests())
	for _, secret := range []string{u.token, u.service, "s3cr3t", "wr0ng", "0101", `"` + simcloud.Password + `"`} {
		if strings.Contains(text, secret) {
			t.Errorf("the record shows the secret %s", secret)
		}
	}
}
