//go:build clients

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// realPlacement is OpenStack's own Placement (Debian: python3-placement), without
// Keystone and with its database in a file.
type realPlacement struct {
	t   *testing.T
	url string
}

// placementScript serves it with a thread for each connection: the one thread of
// placement-api would wait on a connection that a client keeps for later.
const placementScript = `
import socketserver
import sys
from wsgiref import simple_server
from placement.wsgi import init_application

class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True

simple_server.make_server("127.0.0.1", int(sys.argv[1]), init_application(), server_class=Server).serve_forever()
`

func startRealPlacement(t *testing.T) realPlacement {
	t.Helper()
	port, dir := freePorts(t, 1), t.TempDir()
	config := fmt.Sprintf("[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite:///%s\nsync_on_startup = True\n", filepath.Join(dir, "placement.sqlite"))
	must(t, os.WriteFile(filepath.Join(dir, "placement.conf"), []byte(config), 0o600))
	// Debian installs the library for its own interpreter only.
	command := exec.Command("/usr/bin/python3", "-c", placementScript, port)
	command.Env = append(os.Environ(), "OS_PLACEMENT_CONFIG_DIR="+dir, "PYTHONWARNINGS=ignore")
	var log lockedBuffer
	command.Stdout, command.Stderr = &log, &log
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	p := realPlacement{t, "http://127.0.0.1:" + port}
	for range 200 { // another process: there is no bubble to wait in
		if res, err := direct.Get(p.url); err == nil {
			_ = res.Body.Close()
			return p
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("placement-api does not answer: %s", log.String())
	return p
}

// call sends a request as the administrator and decodes the answer.
func (p realPlacement) call(method, path, body string, into any) {
	p.t.Helper()
	text := put(p.t, method, p.url+path, body, "X-Auth-Token: admin", "OpenStack-API-Version: placement 1.28")
	if into != nil && json.Unmarshal([]byte(text), into) != nil {
		p.t.Fatalf("%s %s: %s", method, path, text)
	}
}

// state is the inventories and traits of a provider.
func (p realPlacement) state(uuid string) (map[string]int, []string) {
	p.t.Helper()
	var inventories struct {
		Inventories map[string]struct{ Total int }
	}
	var traits struct{ Traits []string }
	p.call("GET", "/resource_providers/"+uuid+"/inventories", "", &inventories)
	p.call("GET", "/resource_providers/"+uuid+"/traits", "", &traits)
	totals := make(map[string]int)
	for class, inventory := range inventories.Inventories {
		totals[class] = inventory.Total
	}
	slices.Sort(traits.Traits)
	return totals, traits.Traits
}

func (p realPlacement) names() []string {
	p.t.Helper()
	var list struct {
		Providers []struct{ Name string } `json:"resource_providers"`
	}
	p.call("GET", "/resource_providers", "", &list)
	var names []string
	for _, each := range list.Providers {
		names = append(names, each.Name)
	}
	slices.Sort(names)
	return names
}

const flatModel = `{"hosts": [{"name": "cn0", "sysfs": {"devices": [
	{"address": "0000:3b:00.0", "vendor": "10de", "product": "15f8", "class": "0302"},
	{"address": "0000:5e:00.0", "vendor": "10de", "product": "15f8", "class": "0302"}]}}]}`

func TestAFlatHostIsUpgradedInTheRealPlacement(t *testing.T) {
	t.Parallel()
	placement := startRealPlacement(t)
	var host struct{ UUID string }
	placement.call("POST", "/resource_providers", `{"name": "cn0"}`, &host)
	placement.call("PUT", "/resource_providers/"+host.UUID+"/inventories", `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}`, nil)
	model := writeFile(t, "model.json", flatModel)
	cyborg := func(mode string) {
		t.Helper()
		c := start(t, "cyborg", "--placement-url", placement.url, "--model", model, "--placement-mode", mode)
		if status := c.stop(); status != 0 || strings.Contains(c.stderr.String(), "failed") {
			t.Errorf("cysim cyborg, %s: status %d, %s", mode, status, c.stderr)
		}
	}
	check := func(when string, wantTotals map[string]int, wantTraits ...string) {
		t.Helper()
		totals, traits := placement.state(host.UUID)
		if diff := cmp.Diff(wantTotals, totals) + cmp.Diff(wantTraits, append([]string(nil), traits...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	unflatten := func(wantStatus int, wantText string) {
		t.Helper()
		status, out, errs := cysim(t, "unflatten", "--placement-url", placement.url)
		if text := out + errs; status != wantStatus || !strings.Contains(text, wantText) {
			t.Errorf("unflatten: %d, %s; want %d with %s", status, text, wantStatus, wantText)
		}
	}
	flat := map[string]int{"VCPU": 8, "PGPU": 2}
	cyborg("flat")
	check("flat", flat, "CUSTOM_NVIDIA_15F8")
	cyborg("flat") // the second process takes over the providers of the first
	check("flat, started again", flat, "CUSTOM_NVIDIA_15F8")

	claim := fmt.Sprintf(`{"allocations": {%q: {"resources": {"PGPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}`, host.UUID)
	placement.call("PUT", "/allocations/"+instance, claim, nil)
	unflatten(1, instance)
	check("refused", flat, "CUSTOM_NVIDIA_15F8")
	placement.call("DELETE", "/allocations/"+instance, "", nil)
	unflatten(0, "removed from cn0 ("+host.UUID+"): PGPU CUSTOM_NVIDIA_15F8")
	check("removed", map[string]int{"VCPU": 8})
	cyborg("tree")
	if diff := cmp.Diff([]string{"cn0", "cn0_0000:3b:00.0", "cn0_0000:5e:00.0"}, placement.names()); diff != "" {
		t.Errorf("providers after the upgrade (-want +got):\n%s", diff)
	}
	check("upgraded", map[string]int{"VCPU": 8})
}
