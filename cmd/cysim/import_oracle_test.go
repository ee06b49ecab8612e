//go:build oracle

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// startPlacement runs Debian's python3-placement over sqlite until the test ends. It asks a Keystone
// about tokens, if there is the URL of one.
func startPlacement(t *testing.T, keystone ...string) (url string) {
	t.Helper()
	return startReal(t, "placement", "../../placementsim/testdata/oracle/serve.py", keystone...)
}

// startReal runs one of Debian's services in Python until the test ends.
func startReal(t *testing.T, name, file string, args ...string) (url string) {
	t.Helper()
	launcher, err := os.ReadFile(file)
	must(t, err)
	cmd := exec.Command("/usr/bin/python3", append([]string{"-W", "ignore", "-B", "-c", string(launcher), t.TempDir()}, args...)...)
	var log lockedBuffer
	cmd.Stderr = &log
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		if text := log.String(); t.Failed() {
			t.Logf("the log of the real %s ends with: %s", name, text[max(0, len(text)-4000):])
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the real %[1]s does not start (%[2]v): install Debian's python3-%[1]s (apt-get install python3-%[1]s): %[3]s", name, err, &log)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(line)
}

// exchange is a request to a Placement and its answer.
func exchange(t *testing.T, method, url, token string, body any) (int, map[string]any) {
	t.Helper()
	data, err := json.Marshal(body)
	must(t, err)
	status, text := reply(t, method, url, string(data), "X-Auth-Token: "+token, "OpenStack-API-Version: placement 1.39")
	var answer map[string]any
	_ = json.Unmarshal([]byte(text), &answer) // some answers are empty
	return status, answer
}

// What the real Placement lists is what the Placement of the import lists, path by path.
func TestImportFromTheRealPlacement(t *testing.T) {
	real := startPlacement(t)
	cloud, err := simcloud.New(t.Context(), simcloud.Model{}, simcloud.WithExternalPlacement(real, "admin"))
	must(t, err)
	publish(t, cloud, nil)
	const instance = "00000000-0000-4000-8000-000000000001"
	i := slices.IndexFunc(cloud.Cyborg.Deployables(), func(d fakecyborg.StoredDeployable) bool { return d.ResourceClass() == "VGPU" })
	card := cloud.Cyborg.Deployables()[i]
	status, answer := exchange(t, "PUT", real+"/allocations/"+instance, "admin", map[string]any{
		"allocations": map[string]any{
			card.ProviderUUID:                 map[string]any{"resources": map[string]int{"VGPU": 1}},
			cloud.ProviderUUID(card.Hostname): map[string]any{"resources": map[string]int{"VCPU": 2}},
		}, "project_id": "p", "user_id": "u", "consumer_generation": nil, "consumer_type": "INSTANCE",
	})
	if status != http.StatusNoContent {
		t.Fatalf("claim: %d %v", status, answer)
	}
	defer exchange(t, "DELETE", real+"/allocations/"+instance, "admin", nil) // the cloud takes its providers away
	arqs, err := cloud.Cyborg.CreateARQs("vgpu", cloud.ProjectID("demo"))
	must(t, err)
	must(t, cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: card.Hostname, Provider: card.ProviderUUID, Instance: instance}))
	got, _ := imported(t)
	ours := serveHandler(t, got)
	paths := []string{"/resource_classes", "/allocations/" + instance, "/usages?project_id=p",
		"/allocation_candidates?resources=PGPU:1", "/allocation_candidates?resources=VGPU:1,VCPU:1&required=CUSTOM_GPU_NVIDIA"}
	for _, p := range got.Placement.ResourceProviders() {
		for _, part := range []string{"", "/inventories", "/traits", "/aggregates", "/usages", "/allocations"} {
			paths = append(paths, "/resource_providers/"+p.UUID+part)
		}
	}
	if len(paths) < 100 {
		t.Fatalf("%d paths", len(paths))
	}
	for _, path := range paths {
		_, want := exchange(t, "GET", real+path, "admin", nil)
		_, have := exchange(t, "GET", ours+path, "admin", nil)
		if diff := cmp.Diff(plain(want), plain(have)); diff != "" {
			t.Errorf("%s (-real +imported):\n%s", path, diff)
		}
	}
}

// plain is an answer without its links and without the order of its lists.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "links")
		for key := range v {
			v[key] = plain(v[key])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// serveHandler serves the Placement of a cloud with a token that is always good.
func serveHandler(t *testing.T, cloud *simcloud.Cloud) string {
	t.Helper()
	token, err := cloud.ServiceToken(t.Context())
	must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Auth-Token", token)
		cloud.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/placement"
}
