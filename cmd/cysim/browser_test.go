//go:build browser

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/simcloud"
)

// screenshots is the directory of the pictures of the page.
const screenshots = "../../.ci/out"

// chromium runs the browser without a window.
func chromium(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=3000", "--user-data-dir=" + t.TempDir(),
	}, args...)
	var errors strings.Builder
	command := exec.CommandContext(ctx, "chromium", args...)
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("chromium: %v: %s", err, errors.String())
	}
	return string(out)
}

// oddModel is the default model with a device whose name is markup.
func oddModel(t *testing.T) string {
	t.Helper()
	m := simcloud.DefaultModel()
	odd := driver.PCIAddress{Bus: 0xee}
	m.Hosts[0].Devices = []driver.Device{{
		Vendor: "8086", Model: "odd", Type: driver.TypeFPGA, ControlPath: odd.ControlPath(), Deployables: []driver.Deployable{{
			Name: "cn0_<script>document.title=1</script>", NumAccelerators: 1, DriverName: "odd", Class: "FPGA", Traits: []string{driver.TraitOwnerCyborg},
			AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: odd.Info()}},
		}},
	}}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestThePageInABrowser(t *testing.T) {
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--model", oddModel(t), "--clouds-yaml", clouds)
	page := served.env["CYSIM_URL"] + "/_sim/"
	put(t, "PUT", page+"faults", `[{"operation": "accelerator.arq.bind", "action": "drop", "when": "after"}]`)
	put(t, "PUT", page+"guests/2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", `{"host": "cn1"}`)
	t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
	var out strings.Builder
	run(t.Context(), []string{"load", "--spawns", "1", "--concurrency", "1", "--warmup", "0", "--cloud", "sim", "--service-cloud", "sim-svc"}, &out, &out)

	dom := chromium(t, "--dump-dom", page)
	for _, want := range []string{
		"<title>cysim</title>", "cn0_&lt;script&gt;", "VGPU 0 of 16 used",
		"1 guest <code>2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001</code>", "PATCH /accelerator_requests: no answer, fault drop",
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(screenshots)
	if err != nil {
		t.Fatal(err)
	}
	through, followed := counting(t, page)
	for name, size := range map[string]string{"page.png": "1200,2400", "page-phone.png": "390,3200"} {
		file := filepath.Join(dir, name)
		chromium(t, "--window-size="+size, "--screenshot="+file, through)
		if info, err := os.Stat(file); err != nil || info.Size() < 10_000 {
			t.Errorf("screenshot %s: %v", name, err)
		}
	}
	if n := followed.Load(); n < 2 {
		t.Errorf("the pages asked %d times for what changed, want each at least once", n)
	}
}

// counting forwards requests and counts those for one section, which the script sends when the
// stream reports a change.
func counting(t *testing.T, page string) (through string, followed *atomic.Int32) {
	t.Helper()
	target, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	followed = new(atomic.Int32)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("part") {
			followed.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + target.Path, followed
}

// The page must not be wider than a phone's screen; wide parts scroll within it.
func TestThePageFitsAPhone(t *testing.T) {
	served := start(t, "serve")
	frame := filepath.Join(t.TempDir(), "frame.html")
	_, html := get(t, served.env["CYSIM_URL"]+"/_sim/", "")
	_, css := get(t, served.env["CYSIM_URL"]+"/_sim/page.css", "")
	html = strings.Replace(html, `<link rel="stylesheet" href="page.css">`, "<style>"+css+"</style>", 1)
	html = strings.Replace(html, `<script src="page.js" defer></script>`,
		`<script>addEventListener("load", () => { document.title = "wide " + (document.documentElement.scrollWidth > document.documentElement.clientWidth) + " reachable " + document.querySelectorAll("a, summary, [tabindex='0']").length; });</script>`, 1)
	if err := os.WriteFile(frame, []byte(html), 0o600); err != nil {
		t.Fatal(err)
	}
	dom := chromium(t, "--dump-dom", "--window-size=390,800", "file://"+frame)
	if !strings.Contains(dom, "<title>wide false reachable ") || strings.Contains(dom, "reachable 0<") {
		_, title, _ := strings.Cut(dom, "<title>")
		t.Errorf("on a phone: %s", title[:min(len(title), 60)])
	}
}
