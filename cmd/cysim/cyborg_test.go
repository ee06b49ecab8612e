package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/simcloud"
)

// tokenFor logs in to a simulated Keystone.
func tokenFor(t *testing.T, auth, user, project string) string {
	t.Helper()
	status, token := reply(t, http.MethodPost, auth+"/auth/tokens", fmt.Sprintf(`{"auth": {"identity": {"methods": ["password"],
		"password": {"user": {"name": %q, "domain": {"id": "default"}, "password": "secret"}}},
		"scope": {"project": {"name": %q, "domain": {"id": "default"}}}}}`, user, project))
	if status != http.StatusCreated {
		t.Fatalf("token of %s: %d %s", user, status, token)
	}
	return token
}

// cloudWithoutHosts serves a cloud whose own Cyborg has no hosts, makes a compute provider in it,
// and makes it the cloud sim of clouds.yaml.
func cloudWithoutHosts(t *testing.T, host string) (cloud *running, token string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	cloud = start(t, "serve", "--model", writeFile(t, "model.json", `{"hosts": []}`), "--clouds-yaml", file)
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	token = tokenFor(t, cloud.env["CYSIM_URL"]+authPath, "admin", "admin")
	put(t, http.MethodPost, cloud.env["CYSIM_URL"]+"/placement/resource_providers", `{"name": "`+host+`"}`, "X-Auth-Token: "+token)
	return cloud, token
}

// providersOf are the names of the providers of a Placement, sorted.
func providersOf(t *testing.T, placement, token string) []string {
	t.Helper()
	_, text := reply(t, http.MethodGet, placement+"/resource_providers", "", "X-Auth-Token: "+token)
	var body struct {
		Providers []struct{ Name string } `json:"resource_providers"`
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatalf("providers: %v: %s", err, text)
	}
	names := []string{}
	for _, p := range body.Providers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// layOutGPUs makes the tree of a machine with GPUs at these addresses, in place of what is there.
func layOutGPUs(t *testing.T, dir string, addresses ...string) {
	t.Helper()
	var d sysfs.Description
	for _, address := range addresses {
		d.Devices = append(d.Devices, sysfs.PCIDevice{Address: address, Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "vfio-pci"})
	}
	machine, err := sysfs.Generate(d)
	must(t, err)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		must(t, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	must(t, machine.LayOut(dir))
}

func TestCyborgLogsInAndFindsItsServices(t *testing.T) {
	cloud, token := cloudWithoutHosts(t, "cn0")
	dir := t.TempDir()
	layOutGPUs(t, dir, "0000:84:00.0")
	cyborg := start(t, "cyborg", "--cloud", "sim", "--sysfs", dir)
	if diff := cmp.Diff([]string{"cn0", "cn0_0000:84:00.0"}, providersOf(t, cloud.env["CYSIM_URL"]+"/placement", token)); diff != "" {
		t.Errorf("providers (-want +got):\n%s\n%s", diff, cyborg.stderr)
	}
	root := strings.TrimSuffix(cyborg.env["CYSIM_ACCELERATOR_URL"], "/v2")
	for path, want := range map[string]string{"health": `"ok"`, "routes": `"accelerator.arq.bind"`, "faults": `"rules":[]`, "requests": `"requests"`} {
		if status, text := get(t, root+"/_sim/"+path, ""); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("GET /_sim/%s: %d %s", path, status, text)
		}
	}
	// Its token is revoked; the next report has another.
	put(t, http.MethodPut, cloud.env["CYSIM_URL"]+"/_sim/faults", `[{"operation": "placement.resource_provider.list", "action": "expire-token", "times": 1}]`)
	if status, text := reply(t, http.MethodPost, root+"/_sim/report", ""); status != http.StatusNoContent {
		t.Errorf("a report after the token has expired: %d %s", status, text)
	}
	if status := cyborg.stop(); status != 0 {
		t.Errorf("status %d: %s", status, cyborg.stderr)
	}
	for args, want := range map[string]string{
		"cyborg --cloud none": `cloud "none"`, "cyborg --cloud sim --placement-url x": "--placement-url",
	} {
		if status, _, stderr := cysim(t, strings.Fields(args)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", args, status, stderr)
		}
	}
}

// Requests that meet an expired token together send one login.
func TestRequestsShareTheRenewalOfAToken(t *testing.T) {
	cloud := simcloud.Run(t)
	var logins atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/auth/tokens") {
			logins.Add(1)
		}
		cloud.Handler().ServeHTTP(w, r)
	})
	server, plain := httptest.NewTLSServer(handler), httptest.NewServer(handler)
	defer server.Close()
	defer plain.Close()
	certificate := writeFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	password := map[string]string{"USERNAME": "admin", "PASSWORD": "secret", "PROJECT_NAME": "admin", "USER_DOMAIN_NAME": "Default", "PROJECT_DOMAIN_ID": "default"}
	admin := tokenFor(t, plain.URL+"/v3", "admin", "admin")
	_, user := reply(t, http.MethodGet, plain.URL+"/v3/users?name=admin", "", "X-Auth-Token: "+admin)
	var users struct{ Users []struct{ ID string } }
	if err := json.Unmarshal([]byte(user), &users); err != nil || len(users.Users) != 1 {
		t.Fatalf("user admin: %s", user)
	}
	_, text := reply(t, http.MethodPost, plain.URL+"/v3/users/"+users.Users[0].ID+"/application_credentials", `{"application_credential": {"name": "c", "secret": "s"}}`, "X-Auth-Token: "+admin)
	var made struct {
		Credential struct{ ID string } `json:"application_credential"`
	}
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Credential.ID == "" {
		t.Fatalf("application credential: %s", text)
	}
	credential := map[string]string{"APPLICATION_CREDENTIAL_ID": made.Credential.ID, "APPLICATION_CREDENTIAL_SECRET": "s"}
	older := map[string]string{"USERNAME": "admin", "PASSWORD": "secret", "TENANT_NAME": "admin", "DOMAIN_NAME": "Default", "INTERFACE": "publicURL"}
	for name, variables := range map[string]map[string]string{"password": password, "older names": older, "application credential": credential} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OS_CLOUD", "")
			t.Setenv("OS_AUTH_URL", server.URL+"/v3")
			t.Setenv("OS_CACERT", certificate)
			for name, value := range variables {
				t.Setenv("OS_"+name, value)
			}
			logins.Store(0)
			testSharedRenewal(t, server.URL, plain.URL)
			if got := logins.Load(); got != 2 {
				t.Errorf("%d logins, want the first and one renewal", got)
			}
		})
	}
}

// loggedIn is a login to the cloud of the environment.
func loggedIn(t *testing.T) *keystoneLogin {
	t.Helper()
	config, err := session.ReadCloud("")
	must(t, err)
	l, err := logIn(t.Context(), config)
	must(t, err)
	return l
}

func testSharedRenewal(t *testing.T, url, plain string) {
	t.Helper()
	l := loggedIn(t)
	placement, err := l.endpoint("placement", "", "")
	if err != nil || placement.URL != url+"/placement" {
		t.Fatalf("placement: %q, %v", placement.URL, err)
	}
	if status, text := reply(t, http.MethodDelete, plain+"/v3/auth/tokens", "", "X-Auth-Token: "+l.provider.Token(), "X-Subject-Token: "+l.provider.Token()); status != http.StatusNoContent {
		t.Fatalf("revoke: %d %s", status, text)
	}
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			peer := simhttp.Peer{Endpoint: placement}
			answer, err := peer.Do(t.Context(), simhttp.PeerCall{Method: http.MethodGet, Path: "/resource_providers"})
			if err != nil || answer.Status != http.StatusOK {
				t.Errorf("with an expired token: %d %s, %v", answer.Status, answer.Body, err)
			}
		})
	}
	asking.Wait()
	if catalogLacks, err := l.endpoint("baremetal", "", ""); err != nil || catalogLacks.URL != "" {
		t.Errorf("a service that is not in the catalog: %+v, %v", catalogLacks, err)
	}
}

func TestCyborgAsksKeystoneAboutItsCallers(t *testing.T) {
	cloud, admin := cloudWithoutHosts(t, "cn0")
	auth := cloud.env["CYSIM_URL"] + authPath
	demo, service := tokenFor(t, auth, "demo", "demo"), tokenFor(t, auth, "nova", "service")
	dir := t.TempDir()
	layOutGPUs(t, dir, "0000:84:00.0")
	cyborg := start(t, "cyborg", "--cloud", "sim", "--auth", "keystone", "--sysfs", dir)
	api := cyborg.env["CYSIM_ACCELERATOR_URL"]
	profile := `[{"name": "p", "groups": [{"resources:PGPU": "1"}]}]`
	ask := func(want int, method, path, body string, headers ...string) string {
		t.Helper()
		status, text := reply(t, method, api+path, body, append(headers, "OpenStack-API-Version: accelerator 2.2")...)
		if status != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, status, text, want)
		}
		return text
	}
	ask(http.StatusOK, "GET", "", "")
	ask(http.StatusUnauthorized, "GET", "/devices", "")
	ask(http.StatusUnauthorized, "GET", "/devices", "", "X-Auth-Token: admin") // good with --auth none
	ask(http.StatusUnauthorized, "GET", "/devices", "", "X-Auth-Token: "+demo+"x", "X-Roles: admin")
	ask(http.StatusForbidden, "POST", "/device_profiles", profile, "X-Auth-Token: "+demo, "X-Roles: admin")
	ask(http.StatusCreated, "POST", "/device_profiles", profile, "X-Auth-Token: "+admin)
	var created struct{ ARQs []struct{ UUID string } }
	if err := json.Unmarshal([]byte(ask(http.StatusCreated, "POST", "/accelerator_requests", `{"device_profile_name": "p"}`, "X-Auth-Token: "+demo)), &created); err != nil || len(created.ARQs) != 1 {
		t.Fatal(err, created)
	}
	_, list := reply(t, http.MethodGet, cloud.env["CYSIM_URL"]+"/placement/resource_providers?name=cn0_0000%3A84%3A00.0", "", "X-Auth-Token: "+admin)
	const instance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	patch := fmt.Sprintf(`{%q: [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/instance_uuid", "value": %q},
		{"op": "add", "path": "/device_rp_uuid", "value": %q}]}`, created.ARQs[0].UUID, instance, uuidOfOne(t, list))
	ask(http.StatusForbidden, "PATCH", "/accelerator_requests", patch, "X-Auth-Token: "+demo)
	ask(http.StatusUnauthorized, "PATCH", "/accelerator_requests", patch, "X-Auth-Token: "+demo, "X-Service-Token: nova")
	ask(http.StatusAccepted, "PATCH", "/accelerator_requests", patch, "X-Auth-Token: "+demo, "X-Service-Token: "+service)
	if _, events := get(t, cloud.env["CYSIM_URL"]+"/_sim/events", ""); !strings.Contains(events, instance) || !strings.Contains(events, created.ARQs[0].UUID) {
		t.Errorf("Nova has no event of the bind: %s", events)
	}
	// A revoked token is refused at once.
	reply(t, http.MethodDelete, auth+"/auth/tokens", "", "X-Auth-Token: "+admin, "X-Subject-Token: "+demo)
	ask(http.StatusUnauthorized, "GET", "/devices", "", "X-Auth-Token: "+demo)
	cloud.stop()
	if text := ask(http.StatusServiceUnavailable, "GET", "/devices", "", "X-Auth-Token: "+admin); !strings.Contains(text, "Keystone") {
		t.Errorf("without Keystone: %s", text)
	}
	if log := cyborg.stderr.String(); !strings.Contains(log, "cannot be validated") || strings.Contains(log, admin) {
		t.Errorf("log: %s", log)
	}
}

// A restarted Cyborg has what the first had, and compares the machine with it.
func TestCyborgContinuesFromItsState(t *testing.T) {
	t.Parallel()
	placement := start(t, "placement").env["CYSIM_PLACEMENT_URL"]
	addHost(t, placement, "cn0")
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "state")
	args := []string{"cyborg", "--placement-url", placement, "--sysfs", dir, "--state", file}
	layOutGPUs(t, dir, "0000:81:00.0", "0000:82:00.0", "0000:83:00.0")
	first := start(t, args...)
	synctest.Test(t, func(t *testing.T) {
		if status, _, stderr := cysim(t, "cyborg", "--placement-url", placement, "--state", file); status != 2 || !strings.Contains(stderr, file) {
			t.Errorf("a second Cyborg with the file: %d %s", status, stderr)
		}
	})
	admin := []string{"X-Auth-Token: admin", "X-Service-Token: nova", "OpenStack-API-Version: accelerator 2.2"}
	api := func(on *running, method, path, body string) string {
		t.Helper()
		return put(t, method, on.env["CYSIM_ACCELERATOR_URL"]+path, body, admin...)
	}
	api(first, "POST", "/device_profiles", `[{"name": "mine", "groups": [{"resources:PGPU": "1"}]}]`)
	var created struct{ ARQs []struct{ UUID string } }
	must(t, json.Unmarshal([]byte(api(first, "POST", "/accelerator_requests", `{"device_profile_name": "mine"}`)), &created))
	_, found := reply(t, http.MethodGet, placement+"/resource_providers?name=cn0_0000%3A83%3A00.0", "", admin...)
	provider := uuidOfOne(t, found)
	api(first, "PATCH", "/accelerator_requests", fmt.Sprintf(`{%q: [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/instance_uuid", "value": "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"},
		{"op": "add", "path": "/device_rp_uuid", "value": %q}]}`, created.ARQs[0].UUID, provider))
	request := api(first, "GET", "/accelerator_requests/"+created.ARQs[0].UUID, "")
	if !strings.Contains(request, `"Bound"`) {
		t.Fatalf("the request: %s", request)
	}
	profiles := api(first, "GET", "/device_profiles", "")
	if n := strings.Count(profiles, `"name"`); n != 1 {
		t.Errorf("%d device profiles, want only the one created: %s", n, profiles)
	}
	if status := first.stop(); status != 0 {
		t.Fatalf("status %d: %s", status, first.stderr)
	}
	// While it is stopped one card goes, one comes, and one that is in use goes.
	layOutGPUs(t, dir, "0000:82:00.0", "0000:84:00.0")
	second := start(t, args...)
	stable := func(text string) string {
		return strings.ReplaceAll(text, first.env["CYSIM_ACCELERATOR_URL"], second.env["CYSIM_ACCELERATOR_URL"])
	}
	base := func(on *running) string { return strings.TrimSuffix(on.env["CYSIM_ACCELERATOR_URL"], "/v2") }
	for path, want := range map[string]string{"/device_profiles": profiles, "/accelerator_requests/" + created.ARQs[0].UUID: request} {
		if diff := cmp.Diff(strings.ReplaceAll(stable(want), base(first), base(second)), api(second, "GET", path, "")); diff != "" {
			t.Errorf("%s after the restart (-before +after):\n%s", path, diff)
		}
	}
	want := []string{"cn0", "cn0_0000:82:00.0", "cn0_0000:83:00.0", "cn0_0000:84:00.0"}
	if diff := cmp.Diff(want, providersOf(t, placement, "admin")); diff != "" {
		t.Errorf("providers (-want +got):\n%s\n%s", diff, second.stderr)
	}
	if log := second.stderr.String(); !strings.Contains(log, "0000:83:00.0") && !strings.Contains(log, "in use") {
		t.Errorf("the log does not mention that a card in use was removed:\n%s", log)
	}
	api(second, "DELETE", "/accelerator_requests?arqs="+created.ARQs[0].UUID, "")
	if status, text := reply(t, http.MethodPost, base(second)+"/_sim/report", ""); status != http.StatusNoContent {
		t.Errorf("report: %d %s", status, text)
	}
	if got := providersOf(t, placement, "admin"); slices.Contains(got, "cn0_0000:83:00.0") {
		t.Errorf("the card that is not in use any more keeps its provider: %v", got)
	}
	second.stop()
	for flag, want := range map[string]string{"--host other": "hosts[0].name", "--placement-mode flat": "placement_mode"} {
		if status, _, stderr := cysim(t, append(args, strings.Fields(flag)...)...); status != 2 || !strings.Contains(stderr, want) || !strings.Contains(stderr, file) {
			t.Errorf("%s: %d %s", flag, status, stderr)
		}
	}
	if status, out, stderr := cysim(t, "state", "show", file); status != 0 || !strings.Contains(out, `"mine"`) {
		t.Errorf("state show: %d %s", status, stderr)
	}
}

// uuidOfOne is the uuid of the one provider of a list.
func uuidOfOne(t *testing.T, list string) string {
	t.Helper()
	var body struct {
		Providers []struct{ UUID string } `json:"resource_providers"`
	}
	if err := json.Unmarshal([]byte(list), &body); err != nil || len(body.Providers) != 1 {
		t.Fatalf("%v: %s", err, list)
	}
	return body.Providers[0].UUID
}

// reportsTold are the lines of a log about failed reports and their end, without times.
func reportsTold(log string) (told []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "report failed") || strings.Contains(line, "reports again") {
			_, text, _ := strings.Cut(line, " ")
			told = append(told, text)
		}
	}
	return told
}

// Cyborg is ready when Placement has the devices, and says before why it is not.
func TestCyborgIsReadyAfterTheFirstReport(t *testing.T) {
	t.Parallel()
	placement := start(t, "placement").env["CYSIM_PLACEMENT_URL"]
	var down atomic.Bool
	down.Store(true)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, placement+r.URL.String(), r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		request.Header = r.Header
		response, err := direct.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	}))
	defer proxy.Close()
	dir := t.TempDir()
	layOutGPUs(t, dir, "0000:84:00.0")
	listener, err := listenFlags{Listen: "127.0.0.1:0"}.open(t.Context(), slog.New(slog.DiscardHandler), "")
	must(t, err)
	base := baseURL(listener, nil)
	_ = listener.Close() // its port is most likely still free
	ctx, stop := context.WithCancel(t.Context())
	stdout, write := io.Pipe()
	var stderr lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"cyborg", "--placement-url", proxy.URL, "--sysfs", dir, "--listen", strings.TrimPrefix(base, "http://")}, write, &stderr)
		_ = write.Close()
	}()
	report := func() (int, string) { return reply(t, http.MethodPost, base+"/_sim/report", "") }
	for listens := false; !listens; {
		select {
		case status := <-ended:
			t.Fatalf("ended with %d: %s", status, &stderr)
		default:
		}
		if response, err := http.Post(base+"/_sim/report", "", nil); err == nil {
			listens = response.StatusCode == http.StatusBadGateway // 503 until there is a Cyborg
			_ = response.Body.Close()
		}
	}
	if status, text := get(t, base+"/_sim/health", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "cn0") || !strings.Contains(text, proxy.URL) {
		t.Errorf("without a Placement: %d %s", status, text)
	}
	if status, _ := get(t, base+"/v2", ""); status != http.StatusOK {
		t.Errorf("the API without a Placement: %d", status)
	}
	if told := reportsTold(stderr.String()); len(told) == 0 || !strings.Contains(told[0], "report failed") || !strings.Contains(told[0], proxy.URL) {
		t.Errorf("log: %s", &stderr)
	}
	// Placement is there, and has no such host.
	down.Store(false)
	if status, text := report(); status != http.StatusBadGateway {
		t.Errorf("a report without the host: %d %s", status, text)
	}
	if _, text := get(t, base+"/_sim/health", ""); !strings.Contains(text, "no resource provider has the name of the host cn0") {
		t.Errorf("without the host: %s", text)
	}
	addHost(t, placement, "cn0")
	if status, text := report(); status != http.StatusNoContent {
		t.Errorf("a report with the host: %d %s", status, text)
	}
	first := make([]byte, len("export CYSIM_ACCELERATOR_URL"))
	if _, err := io.ReadFull(stdout, first); err != nil || !bytes.HasPrefix(first, []byte("export CYSIM_ACCELERATOR_URL")) {
		t.Errorf("%q, %v: %s", first, err, &stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	if status, text := get(t, base+"/_sim/health", ""); status != http.StatusOK || !strings.Contains(text, `"ok"`) {
		t.Errorf("after the first report: %d %s", status, text)
	}
	// Placement fails again: this is logged once, and Cyborg continues.
	down.Store(true)
	for range 2 {
		if status, text := report(); status != http.StatusBadGateway || !strings.Contains(text, proxy.URL) {
			t.Errorf("a report without Placement: %d %s", status, text)
		}
	}
	down.Store(false)
	if status, text := report(); status != http.StatusNoContent {
		t.Errorf("a report with Placement: %d %s", status, text)
	}
	// The first report is repeated in the background, and may end in between.
	if told := reportsTold(stderr.String()); len(slices.Compact(slices.Clone(told))) != len(told) || !strings.Contains(told[len(told)-1], "reports again") {
		t.Errorf("log: %s", &stderr)
	}
	stop()
	if status := <-ended; status != 0 {
		t.Errorf("status %d: %s", status, &stderr)
	}
}

func TestOneAgentOfAMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layOutGPUs(t, dir, "0000:84:00.0")
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	state := filepath.Join(t.TempDir(), "state")
	start(t, "serve", "--sysfs", dir, "--state", state).stop()
	_, shown, _ := cysim(t, "state", "show", state)
	document := writeFile(t, "document", shown)
	first := start(t, "serve", "--sysfs", dir)
	model := writeFile(t, "model.json", `{"hosts": [{"name": "a"}, {"name": "b", "sysfs": {"dir": "`+dir+`"}}]}`)
	for _, args := range []string{
		"serve --sysfs " + dir, "cyborg --placement-url http://127.0.0.1:1 --sysfs-write --sysfs " + link, "serve --model " + model,
		"serve --state " + state, "serve --from " + document,
	} {
		if status, stdout, stderr := cysim(t, strings.Fields(args)...); status != 2 || stdout != "" || !strings.Contains(stderr, fmt.Sprint("process ", os.Getpid(), " ")) {
			t.Errorf("%s: %d %s", args, status, stderr)
		}
	}
	first.stop()
	start(t, "serve", "--model", model)
}

// A service that does not answer, or cannot, is asked again; one that refuses the login is not.
func TestKeystoneIsAskedAgainUntilItAnswers(t *testing.T) {
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, value := range map[string]string{"CLOUD": "", "USERNAME": "admin", "PASSWORD": "secret", "PROJECT_NAME": "admin", "DOMAIN_NAME": "Default"} {
		t.Setenv("OS_"+name, value)
	}
	for _, tt := range []struct {
		url    string
		status int
		again  bool
	}{{server.URL, 503, true}, {server.URL, 429, true}, {gone.URL, 0, true}, {server.URL, 401, false}, {server.URL, 404, false}} {
		status = tt.status
		t.Setenv("OS_AUTH_URL", tt.url+"/v3")
		services, err := serviceFlags{}.services()
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var problem error
		_, err = services.connect(ctx, slog.New(slog.DiscardHandler), func(err error) {
			problem = err
			cancel() // instead of the pause
		})
		cancel()
		if again := errors.Is(err, context.Canceled); again != tt.again || err == nil {
			t.Errorf("%+v: asked again: %t, %v", tt, again, err)
		}
		if text := fmt.Sprint(errors.Join(problem, err)); !strings.Contains(text, tt.url) || strings.Contains(text, "secret") {
			t.Errorf("%+v: the error does not name it: %s", tt, text)
		}
	}
}

// A Placement that accepts requests and never answers does not keep Cyborg from ending.
func TestCyborgEndsWhilePlacementHangs(t *testing.T) {
	t.Parallel()
	asked, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	placement := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once.Do(func() { close(asked) })
		<-end
	}))
	defer placement.Close()
	defer close(end)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var stdout, stderr bytes.Buffer
	go func() { ended <- run(ctx, []string{"cyborg", "--placement-url", placement.URL}, &stdout, &stderr) }()
	<-asked
	stop()
	if status := <-ended; status != 0 || stdout.Len() > 0 {
		t.Errorf("status %d: %s%s", status, &stdout, &stderr)
	}
}

// Keystone validates expired tokens on request, which is for requests with a service token.
func TestTokensComeFromKeystone(t *testing.T) {
	cloud := simcloud.Run(t)
	expired := ""
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("X-Subject-Token") == expired && !r.URL.Query().Has("allow_expired") {
			http.NotFound(w, r)
			return
		}
		cloud.Handler().ServeHTTP(w, r)
	}))
	defer keystone.Close()
	for name, value := range map[string]string{"CLOUD": "", "AUTH_URL": keystone.URL + "/v3", "USERNAME": "admin", "PASSWORD": "secret", "PROJECT_NAME": "admin", "DOMAIN_NAME": "Default"} {
		t.Setenv("OS_"+name, value)
	}
	l := loggedIn(t)
	server, err := fakecyborg.New(fakecyborg.Config{}, fakecyborg.WithTokenVerifier(&tokenVerifier{l.identity, slog.New(slog.DiscardHandler)}))
	must(t, err)
	defer server.Close()
	auth := keystone.URL + "/v3"
	demo, service, admin := tokenFor(t, auth, "demo", "demo"), tokenFor(t, auth, "nova", "service"), tokenFor(t, auth, "admin", "admin")
	restricted := restrictedToken(t, auth, demo)
	expired = demo
	for _, tt := range []struct {
		token, service, path string
		want                 int
	}{
		{demo, "", "/v2/devices", http.StatusUnauthorized},
		{demo, "x", "/v2/devices", http.StatusUnauthorized},
		{demo, admin, "/v2/devices", http.StatusUnauthorized}, // without the role service
		{demo, service, "/v2/devices", http.StatusOK},
		{"", service, "/v2/devices", http.StatusUnauthorized},
		{"x", service, "/v2/devices", http.StatusUnauthorized},
		{admin, service, "/v2/devices", http.StatusOK},
		{restricted, "", "/v2/device_profiles", http.StatusOK},
		{restricted, "", "/v2/devices", http.StatusUnauthorized},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil)
		r.Header.Set("X-Auth-Token", tt.token)
		if tt.service != "" {
			r.Header.Set("X-Service-Token", tt.service)
		}
		w := httptest.NewRecorder()
		if server.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
		if got := w.Header().Get("WWW-Authenticate"); w.Code == http.StatusUnauthorized && got != `Keystone uri="`+keystone.URL+`/"` {
			t.Errorf("%+v: WWW-Authenticate: %s", tt, got)
		}
	}
}

// restrictedToken is a token of an application credential of the user of a token, which may only list
// device profiles.
func restrictedToken(t *testing.T, auth, token string) string {
	t.Helper()
	_, text := reply(t, http.MethodGet, auth+"/auth/tokens", "", "X-Auth-Token: "+token, "X-Subject-Token: "+token)
	var own struct {
		Token struct{ User struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(text), &own); err != nil {
		t.Fatalf("token: %v: %s", err, text)
	}
	status, text := reply(t, http.MethodPost, auth+"/users/"+own.Token.User.ID+"/application_credentials", `{"application_credential": {"name": "c", "secret": "s",
		"access_rules": [{"service": "accelerator", "path": "/v2/device_profiles", "method": "GET"}]}}`, "X-Auth-Token: "+token)
	var made struct {
		Credential struct{ ID string } `json:"application_credential"`
	}
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated {
		t.Fatalf("application credential: %d %s", status, text)
	}
	status, restricted := reply(t, http.MethodPost, auth+"/auth/tokens", `{"auth": {"identity": {"methods": ["application_credential"],
		"application_credential": {"id": "`+made.Credential.ID+`", "secret": "s"}}}}`)
	if status != http.StatusCreated {
		t.Fatalf("token of the credential: %d %s", status, restricted)
	}
	return restricted
}
