package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// realCloud is a cloud behind a socket, with a clouds.yaml, that records what it is asked.
type realCloud struct {
	*simcloud.Cloud
	server *httptest.Server
	mu     sync.Mutex
	asked  []string
}

// serveCloud serves a cloud in which instances hold accelerators. Change may answer in
// its place.
func serveCloud(t *testing.T, m simcloud.Model, change func(http.ResponseWriter, *http.Request) bool) *realCloud {
	t.Helper()
	cloud, err := simcloud.New(t.Context(), m)
	must(t, err)
	r := publish(t, cloud, change)
	for n := range min(2, len(cloud.Cyborg.Deployables())) {
		r.hold(t, n)
	}
	return r
}

// publish gives a cloud a socket and a clouds.yaml, and closes it at the end.
func publish(t *testing.T, cloud *simcloud.Cloud, change func(http.ResponseWriter, *http.Request) bool) *realCloud {
	t.Helper()
	r := &realCloud{Cloud: cloud}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, req.Method+" "+req.URL.Path)
		r.mu.Unlock()
		if change == nil || !change(w, req) {
			cloud.Handler().ServeHTTP(w, req)
		}
	}))
	t.Cleanup(func() {
		r.server.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	data, err := cloudsYAML(r.server.URL, cloud.Model().Region, "", cloud.PasswordOf)
	must(t, err)
	t.Setenv("OS_CLIENT_CONFIG_FILE", writeFile(t, "clouds.yaml", string(data)))
	t.Setenv("OS_CLOUD", "")
	return r
}

// hold binds a request to a vGPU of the n-th host.
func (r *realCloud) hold(t *testing.T, n int) {
	t.Helper()
	host := r.HostNames()[n]
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n+1)
	for _, d := range r.Cyborg.Deployables() {
		if d.Hostname != host || d.ResourceClass() != "VGPU" {
			continue
		}
		must(t, r.Placement.Claim(placementsim.Claim{Consumer: id, Project: "p", User: "u", Allocations: []placementsim.Allocation{{Provider: d.ProviderUUID, Class: "VGPU", Used: 1}}}))
		arqs, err := r.Cyborg.CreateARQs("vgpu", r.ProjectID("demo"))
		must(t, err)
		must(t, r.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: host, Provider: d.ProviderUUID, Instance: id}))
	}
}

// imported is the cloud sim, which has to be imported, and what is logged of it.
func imported(t *testing.T) (cloud *simcloud.Cloud, stderr string) {
	t.Helper()
	status, stdout, stderr := cysim(t, "import", "--cloud", "sim")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	cloud, err := simcloud.FromState(t.Context(), []byte(stdout))
	must(t, err)
	t.Cleanup(func() { _ = cloud.Close() })
	return cloud, stderr
}

func TestImportSendsNothingButGETAndTheLogin(t *testing.T) {
	cloud := serveCloud(t, simcloud.Model{}, nil)
	before, err := cloud.Dump()
	must(t, err)
	got, stderr := imported(t)
	logins, reads := 0, 0
	for _, asked := range cloud.asked {
		switch {
		case strings.HasPrefix(asked, "GET "):
			reads++
		case asked == "POST /v3/auth/tokens":
			logins++
		default:
			t.Errorf("the import sent %s", asked)
		}
	}
	if logins != 1 || reads < 90 {
		t.Errorf("%d logins and %d reads", logins, reads)
	}
	after, err := cloud.Dump()
	must(t, err)
	changed, err := simcloud.State(before).Diff(after)
	must(t, err)
	for _, d := range changed { // a login and the count of requests are all that stays
		if !strings.HasPrefix(d.Path, "identity.") && !strings.Contains(d.Path, ".sequences[") && !strings.Contains(d.Path, ".ids.request") {
			t.Errorf("the import changed the cloud: %s", d)
		}
	}
	if diff := cmp.Diff(cloud.Placement.ResourceProviders(), got.Placement.ResourceProviders()); diff != "" {
		t.Errorf("providers (-cloud +import):\n%s", diff)
	}
	if diff := cmp.Diff(cloud.Cyborg.ARQs(), got.Cyborg.ARQs(), cmp.Comparer(func(a, b time.Time) bool { return a.Unix() == b.Unix() })); diff != "" {
		t.Errorf("requests (-cloud +import):\n%s", diff)
	}
	for _, want := range []string{"placement=resource_providers\n", "accelerator=accelerator_requests\n", "resource_providers=", "consumers=\"2 of 2\"\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("progress lacks %q: %s", want, stderr)
		}
	}
}

func TestImportedStateIsServed(t *testing.T) {
	cloud := serveCloud(t, simcloud.Model{}, nil)
	dir := t.TempDir()
	state, listing := filepath.Join(dir, "state.json"), filepath.Join(dir, "listing.json")
	if status, stdout, stderr := cysim(t, "import", "--cloud", "sim", "--to", state, "--listing", listing); status != 0 || stdout != "" {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state: %v %v", info, err)
	}
	again := filepath.Join(dir, "again.json")
	if status, _, stderr := cysim(t, "import", "--from-listing", listing, "--to", again); status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	first, second := readFile(t, state), readFile(t, again)
	if diff, err := simcloud.State(first).Diff(second); err != nil || len(diff) > 0 {
		t.Errorf("with and without the network: %v %v", diff, err)
	}
	served := start(t, "serve", "--from", again)
	if _, text := get(t, served.env["CYSIM_URL"]+"/_sim/leaks", ""); !strings.Contains(text, cloud.Cyborg.ARQs()[0].UUID) {
		t.Errorf("served: %s", text)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return data
}

func TestImportReplacesNamesAndIDs(t *testing.T) {
	cloud := serveCloud(t, simcloud.Model{}, nil)
	status, stdout, stderr := cysim(t, "import", "--cloud", "sim", "--replace-names", "--replace-ids", "--seed", "3")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, p := range cloud.Placement.ResourceProviders() {
		for _, text := range []string{p.UUID, `"` + p.Name + `"`} {
			if strings.Contains(stdout, text) {
				t.Errorf("%s is still there", text)
			}
		}
	}
	if !strings.Contains(stdout, `"host-2_0000:3b:00.0"`) {
		t.Error("no host-2_0000:3b:00.0")
	}
}

func TestImportLogsInByVariables(t *testing.T) {
	cloud := serveCloud(t, simcloud.Model{Hosts: []simcloud.Host{}}, nil)
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(t.TempDir(), "none.yaml"))
	for name, value := range map[string]string{
		"OS_AUTH_URL": cloud.server.URL + "/v3", "OS_USERNAME": "admin", "OS_PASSWORD": simcloud.Password, "OS_PROJECT_NAME": "admin",
		"OS_USER_DOMAIN_NAME": "Default", "OS_DOMAIN_NAME": "Default", "OS_REGION_NAME": "RegionOne", "OS_INTERFACE": "publicURL",
	} {
		t.Setenv(name, value)
	}
	if status, _, stderr := cysim(t, "import"); status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestImportOfACloudWithoutCyborg(t *testing.T) {
	var handler http.Handler
	cloud := serveCloud(t, simcloud.Model{}, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(`"accelerator"`), []byte(`"other"`)))
		return true
	})
	handler = cloud.Handler()
	got, stderr := imported(t)
	if !strings.Contains(stderr, "the catalog has no accelerator") {
		t.Fatal(stderr)
	}
	if len(got.Cyborg.Devices()) != 0 || len(got.Placement.ResourceProviders()) != len(cloud.Placement.ResourceProviders()) {
		t.Errorf("%d devices, %d providers", len(got.Cyborg.Devices()), len(got.Placement.ResourceProviders()))
	}
}

// older makes Placement one of an older release, which shows less.
func older(minor int) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("OpenStack-API-Version") == "placement latest" {
			r.Header.Set("OpenStack-API-Version", fmt.Sprint("placement 1.", minor))
		}
		return false
	}
}

func TestImportSpeaksOlderPlacements(t *testing.T) {
	for _, minor := range []int{14, 20, 28, 38} {
		t.Run(fmt.Sprint(minor), func(t *testing.T) {
			cloud := serveCloud(t, simcloud.Model{}, older(minor))
			got, _ := imported(t)
			if diff := cmp.Diff(cloud.Placement.ResourceProviders(), got.Placement.ResourceProviders()); diff != "" {
				t.Errorf("providers (-cloud +import):\n%s", diff)
			}
		})
	}
	serveCloud(t, simcloud.Model{}, older(13))
	if status, _, stderr := cysim(t, "import", "--cloud", "sim"); status != 1 || !strings.Contains(stderr, "Placement must have microversion 1.14") {
		t.Errorf("1.13: status %d: %s", status, stderr)
	}
}

func TestImportOfAnOldCyborg(t *testing.T) {
	m := simcloud.Model{}
	m.Cyborg.Release = "zed"
	cloud := serveCloud(t, m, nil)
	got, stderr := imported(t)
	if !strings.Contains(stderr, "no attributes are listed") {
		t.Fatal(stderr)
	}
	if got.Model().Cyborg.Release != "zed" {
		t.Errorf("release %q", got.Model().Cyborg.Release)
	}
	for i, want := range cloud.Cyborg.Deployables() {
		if d := got.Cyborg.Deployables()[i]; cmp.Diff(want, d) != "" {
			t.Errorf("deployable (-cloud +import):\n%s", cmp.Diff(want, d))
		}
	}
	if err := got.Cyborg.Report(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestImportNamesWhatWentWrong(t *testing.T) {
	fail := func(path string, status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, path) {
				return false
			}
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"errors": [{"detail": "broken: %s"}]}`, r.Header.Get("X-Auth-Token"))
			return true
		}
	}
	for _, tt := range []struct {
		name   string
		change func(http.ResponseWriter, *http.Request) bool
		want   []string
	}{
		{"traits", fail("/placement/traits", 403), []string{"placement: read traits: ", "403"}},
		{"a provider's inventories", fail("/inventories", 500), []string{"placement: resource provider ", `("cn`, "read its inventories: ", "500"}},
		{"a consumer", fail("/placement/allocations/00000000-0000-4000-8000-000000000001", 500), []string{"read allocations of consumer 00000000-0000-4000-8000-000000000001: "}},
		{"devices", fail("/accelerator/v2/devices", 403), []string{"accelerator: read devices: ", "403"}},
		{"the login", fail("/auth/tokens", 401), []string{"log in at http://127.0.0.1"}},
		{"resource providers without a uuid", func(w http.ResponseWriter, r *http.Request) bool {
			listed := strings.HasSuffix(r.URL.Path, "/placement/resource_providers")
			if listed {
				_, _ = io.WriteString(w, `{"resource_providers":[{},{}]}`)
			}
			return listed
		}, []string{"read resource_providers: resource provider 0: it has no uuid"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serveCloud(t, simcloud.Model{}, tt.change)
			status, stdout, stderr := cysim(t, "import", "--cloud", "sim")
			last := stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]
			if status != 1 || stdout != "" {
				t.Errorf("status %d, output %q", status, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(last, want) {
					t.Errorf("got %q, want one with %q", last, want)
				}
			}
			if strings.Contains(stderr, "gAAAA") || strings.Contains(stderr, simcloud.Password) {
				t.Errorf("a secret in %s", stderr)
			}
		})
	}
}

// What an answer takes unpacked counts.
func TestImportReadsAnswersUpToALimit(t *testing.T) {
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprint("packed ", packed), func(t *testing.T) {
			serveCloud(t, simcloud.Model{}, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/placement/traits") {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				out := io.Writer(w)
				const size = 80 // MiB; the client leaves before
				if packed {
					w.Header().Set("Content-Encoding", "gzip")
					out = gzip.NewWriter(w)
				} else {
					w.Header().Set("Content-Length", strconv.Itoa(size<<20))
				}
				for range size {
					if _, err := out.Write(spaces); err != nil {
						break
					}
				}
				return true
			})
			status, stdout, stderr := cysim(t, "import", "--cloud", "sim")
			if status != 1 || stdout != "" || !strings.Contains(stderr, "placement: read traits: ") || !strings.Contains(stderr, "the answer is too large: more than 64 MiB") {
				t.Errorf("status %d, %q: %s", status, stdout, stderr)
			}
		})
	}
}

func TestImportSkipsAProviderThatIsDeletedDuringIt(t *testing.T) {
	var gone string
	cloud := serveCloud(t, simcloud.Model{}, func(w http.ResponseWriter, r *http.Request) bool {
		if gone == "" || !strings.HasPrefix(r.URL.Path, "/placement/resource_providers/"+gone) {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"errors": [{"status": 404, "detail": "No resource provider with uuid %s found"}]}`, gone)
		return true
	})
	for _, p := range cloud.Placement.ResourceProviders() {
		if strings.HasSuffix(p.Name, "cn1_nic") {
			gone = p.UUID
		}
	}
	status, stdout, stderr := cysim(t, "import", "--cloud", "sim")
	if status != 0 || !strings.Contains(stderr, "deleted during the import") || strings.Contains(stdout, gone) {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestImportRefusesBadFlags(t *testing.T) {
	dir := t.TempDir()
	bad := writeFile(t, "bad.json", `{"schema_version":1,"placement":{}}`)
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "none.yaml"))
	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_URL", "")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--from-listing", bad, "--cloud", "sim"}, "can't be used together"},
		{[]string{"--from-listing", filepath.Join(dir, "none.json")}, "no such file"},
		{[]string{"--from-listing", bad}, "the form of an earlier release"},
		{[]string{"--cloud", "sim", "--to", dir}, "is not a regular file"},
		{[]string{"--cloud", "sim", "--to", bad, "--listing", bad}, "the same file"},
		{[]string{"--cloud", "sim"}, "log in: "},
		{nil, "log in: "},
	} {
		if status, stdout, stderr := cysim(t, append([]string{"import"}, tt.args...)...); status != command.StatusBadInput || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: status %d: %s, want one with %q", tt.args, status, stderr, tt.want)
		}
	}
}
