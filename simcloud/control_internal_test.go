package simcloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/bus"
)

// must ends a test whose set-up fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// controlCalls are requests to every route below /_sim/, except the page and its assets, in
// the order in which they are sent to one cloud.
func controlCalls() []struct{ route, path, body string } {
	const guest = "/_sim/guests/2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	return []struct{ route, path, body string }{
		{"GET /_sim/health", "/_sim/health", ""},
		{"GET /_sim/routes", "/_sim/routes", ""},
		{"GET /_sim/model", "/_sim/model", ""},
		{"GET /_sim/clock", "/_sim/clock", ""},
		{"POST /_sim/clock", "/_sim/clock", `{"advance": "1m30s"}`},
		{"POST /_sim/clock", "/_sim/clock", `{"advance": "-1s"}`},
		{"PUT /_sim/guests/{uuid}", guest, `{"host": "cn0", "domain": "<domain/>"}`},
		{"PUT /_sim/guests/{uuid}", guest, `{"host": "cn0", "colour": "red"}`},
		{"PUT /_sim/guests/{uuid}", guest, `{"host": "cn9"}`},
		{"GET /_sim/guests/{uuid}", guest, ""},
		{"GET /_sim/guests/{uuid}", "/_sim/guests/none", ""},
		{"GET /_sim/guests", "/_sim/guests", ""},
		{"GET /_sim/leaks", "/_sim/leaks", ""},
		{"DELETE /_sim/guests/{uuid}", guest, ""},
		{"DELETE /_sim/guests/{uuid}", guest, ""},
		{"PUT /_sim/faults", "/_sim/faults", `[{"operation": "placement.root.get", "nth": 2, "action": "status", "status": 503}]`},
		{"PUT /_sim/faults", "/_sim/faults", `[{"operation": "a.b", "action": "drop"}]`},
		{"GET /_sim/faults", "/_sim/faults", ""},
		{"POST /_sim/faults", "/_sim/faults", `[{"operation": "placement.root.get", "action": "drop"}]`},
		{"DELETE /_sim/faults", "/_sim/faults", ""},
		{"POST /_sim/report", "/_sim/report", ""},
		{"GET /_sim/events", "/_sim/events", ""},
		{"GET /_sim/explain", "/_sim/explain?resources=VCPU:1", ""},
		{"GET /_sim/explain", "/_sim/explain", ""},
		{"PUT /_sim/hosts/{host}/mdevs/{uuid}", "/_sim/hosts/cn0/mdevs/91ac1606-427e-44bb-8233-f4ff4bf3d241", `{"parent": "0000:af:00.0", "type": "nvidia-222", "lifetime": "autostart"}`},
		{"PUT /_sim/hosts/{host}/mdevs/{uuid}", "/_sim/hosts/cn0/mdevs/91ac1606-427e-44bb-8233-f4ff4bf3d242", `{"parent": "0000:af:00.0", "type": "nvidia-222", "lifetime": "short"}`},
		{"PUT /_sim/hosts/{host}/mdevs/{uuid}", "/_sim/hosts/cn0/mdevs/none", `{"parent": "0000:af:00.0", "type": "nvidia-222"}`},
		{"PUT /_sim/hosts/{host}/mdevs/{uuid}", "/_sim/hosts/cn9/mdevs/91ac1606-427e-44bb-8233-f4ff4bf3d242", `{"parent": "0000:af:00.0", "type": "nvidia-222"}`},
		{"GET /_sim/hosts/{host}/mdevs", "/_sim/hosts/cn0/mdevs", ""},
		{"GET /_sim/hosts/{host}/mdevs", "/_sim/hosts/cn9/mdevs", ""},
		{"DELETE /_sim/hosts/{host}/mdevs/{uuid}", "/_sim/hosts/cn0/mdevs/91ac1606-427e-44bb-8233-f4ff4bf3d241", ""},
		{"POST /_sim/hosts/{host}/stop", "/_sim/hosts/cn0/stop", ""},
		{"POST /_sim/hosts/{host}/start", "/_sim/hosts/cn0/start", ""},
		{"POST /_sim/hosts/{host}/reboot", "/_sim/hosts/cn0/reboot", ""},
		{"POST /_sim/hosts/{host}/reboot", "/_sim/hosts/cn9/reboot", ""},
		{"DELETE /_sim/requests", "/_sim/requests", ""},
		{"GET /_sim/requests", "/_sim/requests", ""},
		{"GET /_sim/requests/diagram", "/_sim/requests/diagram", ""},
		{"GET /_sim/unrecognized", "/_sim/unrecognized", ""},
		{"GET /_sim/state", "/_sim/state", ""},
		{"PUT /_sim/state", "/_sim/state", "{}"},
	}
}

// goldenModel is small, so that its golden files can be read.
func goldenModel() Model {
	m := Model{
		Hosts: []Host{{Name: "cn0", Sysfs: &Sysfs{Devices: []sysfs.PCIDevice{bus.WholeGPU("0000:3b:00.0", 20)}}}},
		Users: []User{}, Flavors: []Flavor{},
	}
	m.DeviceProfiles = []DeviceProfile{{Name: "gpu", Groups: []map[string]string{{"resources:PGPU": "1"}}}}
	return m
}

// Programs in every language read these answers. GOCYBORG_UPDATE=1 writes the files.
func TestControlRoutesAreFrozen(t *testing.T) {
	cloud := Run(t, goldenModel(), WithClock(sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))))
	var left []string
	for _, route := range cloud.control().All() {
		left = append(left, route.Pattern)
	}
	for page := range cloud.page.Routes() {
		left = slices.DeleteFunc(left, func(r string) bool { return r == page })
	}
	seen := make(map[string]int)
	for _, call := range controlCalls() {
		left = slices.DeleteFunc(left, func(r string) bool { return r == call.route })
		name := strings.NewReplacer("/_sim/", "", " ", "-", "/", "-", "{", "", "}", "").Replace(strings.ToLower(call.route))
		seen[name]++
		if seen[name] > 1 {
			name += fmt.Sprint("-", seen[name])
		}
		t.Run(name, func(t *testing.T) {
			method, _, _ := strings.Cut(call.route, " ")
			compareGolden(t, name, controlAnswer(t, cloud, method, call.path, call.body))
		})
	}
	if len(left) > 0 {
		t.Errorf("routes without a golden file: %v", left)
	}
}

// controlAnswer is the status and the body, JSON in lines.
func controlAnswer(t *testing.T, cloud *Cloud, method, path, body string) string {
	t.Helper()
	w := answers(t, cloud, method, path, body)
	var text bytes.Buffer
	fmt.Fprintf(&text, "%d %s\n%s\n\n", w.Code, http.StatusText(w.Code), w.Header().Get("Content-Type"))
	if w.Header().Get("Content-Type") == "application/jsonl" { // tests of the services check the rows
		header, _, _ := bytes.Cut(w.Body.Bytes(), []byte("\n"))
		w.Body = bytes.NewBuffer(header)
	}
	if json.Valid(w.Body.Bytes()) {
		must(t, json.Indent(&text, w.Body.Bytes(), "", "  "))
		return strings.TrimRight(text.String(), "\n") + "\n"
	}
	return text.String() + w.Body.String()
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "control", name+".golden")
	if os.Getenv("GOCYBORG_UPDATE") != "" {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
