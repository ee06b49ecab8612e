//go:build browser

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=6000", "--user-data-dir=" + t.TempDir(),
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
	return writeJSON(t, "model.json", m)
}

func TestThePageInABrowser(t *testing.T) {
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--model", oddModel(t), "--clouds-yaml", clouds)
	page := served.env["CYSIM_URL"] + "/_sim/"
	put(t, "PUT", page+"faults", `[{"operation": "accelerator.arq.bind", "action": "drop", "when": "after"}]`)
	put(t, "PUT", page+"guests/2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", `{"host": "cn1"}`)
	t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
	cysim(t, "load", "--spawns", "1", "--concurrency", "1", "--warmup", "0", "--cloud", "sim", "--service-cloud", "sim-svc")

	dom := chromium(t, "--dump-dom", page)
	for _, want := range []string{
		"<title>cysim: Cyborg 2026.2, Nova 2026.2, ", "cn0_&lt;script&gt;", "VGPU 0 of 16 used",
		"1 guest <code>2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001</code>", "PATCH /accelerator_requests: no answer, fault drop",
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	must(t, os.MkdirAll(screenshots, 0o755))
	dir, err := filepath.Abs(screenshots)
	must(t, err)
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
	must(t, err)
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

// After a click the page continues to update, and opened sections stay open. Typing pauses the
// updates, and the page says so.
func TestThePageGoesOnAfterAClick(t *testing.T) {
	const guest = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	const click = `
const opened = document.querySelector('[data-section="hosts"] summary');
opened.focus();
opened.click();
`
	const search = `
const box = document.createElement("input");
box.type = "search";
document.querySelector('[data-section="guests"]').append(box);
box.focus();
box.value = "half a w";
`
	const change = `
document.head.append(Object.assign(document.createElement("link"), {rel: "stylesheet", href: "slow.css"}));
setTimeout(() => { fetch("guests/` + guest + `", {method: "PUT", body: JSON.stringify({host: "cn1"})}); }, 300);
`
	for name, tt := range map[string]struct {
		act  string
		want map[string]bool
	}{
		"clicked": {click, map[string]bool{
			"1 guest <code>" + guest: true, "<td>cn1</td>": true, `<details data-key="`: true, `open=""`: true, "This page is updated when the cloud changes.": true,
		}},
		"typing": {search, map[string]bool{"1 guest <code>" + guest: true, "<td>cn1</td>": false, "Behind: guests.": true}},
	} {
		t.Run(name, func(t *testing.T) {
			dom := chromium(t, "--dump-dom", acting(t, start(t, "serve").env["CYSIM_URL"]+"/_sim/", tt.act+change, nil))
			checkDOM(t, dom, tt.want)
		})
	}
}

// acting forwards requests and appends a script to the page's script that acts like a reader. If
// the script requests slow.css, the page is printed some seconds after during was called.
func acting(t *testing.T, page, script string, during func()) string {
	t.Helper()
	target, err := url.Parse(page)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	proxy.ModifyResponse = func(answer *http.Response) error {
		if !strings.HasSuffix(answer.Request.URL.Path, "page.js") {
			return nil
		}
		text, err := io.ReadAll(answer.Body)
		text = append(text, script...)
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		answer.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/slow.css") {
			proxy.ServeHTTP(w, r)
			return
		}
		if during != nil {
			during()
		}
		select { // until then the browser does not print the page
		case <-r.Context().Done():
		case <-time.After(4 * time.Second):
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + target.Path
}

// The page must not be wider than a phone's screen; wide parts scroll within it.
func TestThePageFitsAPhone(t *testing.T) {
	served := start(t, "serve")
	_, html := get(t, served.env["CYSIM_URL"]+"/_sim/", "")
	_, css := get(t, served.env["CYSIM_URL"]+"/_sim/page.css", "")
	html = strings.Replace(html, `<link rel="stylesheet" href="page.css">`, "<style>"+css+"</style>", 1)
	html = strings.Replace(html, `<script src="page.js" defer></script>`,
		`<script>addEventListener("load", () => { document.title = "wide " + (document.documentElement.scrollWidth > document.documentElement.clientWidth) + " reachable " + document.querySelectorAll("a, summary, [tabindex='0']").length; });</script>`, 1)
	dom := chromium(t, "--dump-dom", "--window-size=390,800", "file://"+writeFile(t, "frame.html", html))
	if !strings.Contains(dom, "<title>wide false reachable ") || strings.Contains(dom, "reachable 0<") {
		_, title, _ := strings.Cut(dom, "<title>")
		t.Errorf("on a phone: %s", title[:min(len(title), 60)])
	}
}
