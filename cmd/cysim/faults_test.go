package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestFaultsOfAFileActFromTheStart(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "faults.json", `[{"operation": "compute.version.get", "action": "status", "status": 503}]`)
	served := start(t, "serve", "--clouds-yaml", filepath.Join(t.TempDir(), "clouds.yaml"), "--faults", file, "--event-form", "ussuri")
	root := served.env["CYSIM_URL"]
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} { // the first only
		if status, body := get(t, root+"/compute/v2.1/", ""); status != want {
			t.Errorf("got %d %s, want %d", status, body, want)
		}
	}
	for path, want := range map[string]string{
		"faults": `"hits":1`, "routes": `"operation":"accelerator.agent.call","subject":"the host","actions":["status","drop","delay","reboot"]`,
		"model": `"event_form":"ussuri"`,
	} {
		if status, body := get(t, root+"/_sim/"+path, ""); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET /_sim/%s: got %d, %.400s; want %s", path, status, body, want)
		}
	}
}
