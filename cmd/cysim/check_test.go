package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

func TestCheckExits9IfSomethingLeaked(t *testing.T) {
	t.Parallel()
	served := start(t, "serve")
	url := served.env["CYSIM_URL"]
	check := func(args ...string) (int, string) {
		status, stdout, stderr := cysim(t, append([]string{"check"}, args...)...)
		return status, stdout + stderr
	}
	if status, text := check(url); status != 0 || text != "nothing leaked\n" {
		t.Errorf("a clean cloud: %d %q", status, text)
	}
	const guest = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	domain, err := json.Marshal(`<domain><devices><hostdev mode="subsystem" type="pci"><source><address domain="0x0000" bus="0x3b" slot="0x00" function="0x0"/></source></hostdev></devices></domain>`)
	must(t, err)
	put(t, "PUT", url+"/_sim/guests/"+guest, `{"host": "cn0", "domain": `+string(domain)+`}`)
	if status, text := check(url + "/"); status != 9 || !strings.Contains(text, guest) || !strings.Contains(text, "accelerators leaked: 1 leak") {
		t.Errorf("a guest with a device that it does not hold: %d %q", status, text)
	}
	status, text := check(url, "-o", "json")
	var leaks []simcloud.Leak
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&leaks); status != 9 || err != nil || len(leaks) != 1 || leaks[0].Kind != simcloud.LeakGuest {
		t.Errorf("as JSON: %d %q %v", status, text, err)
	}
}

func TestCheckSendsTheControlToken(t *testing.T) {
	t.Parallel()
	served := start(t, "serve", "--control-token", "open")
	for token, want := range map[string]int{"": 2, "opens": 2, "open": 0} {
		status, _, stderr := cysim(t, "check", served.env["CYSIM_URL"], "--control-token", token)
		if status != want || strings.Contains(stderr, "opens") {
			t.Errorf("token %q: %d %s", token, status, stderr)
		}
	}
}

func TestCheckRefusesWhatIsNotACloud(t *testing.T) {
	t.Parallel()
	for what, handler := range map[string]http.HandlerFunc{
		"another server": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"another JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"servers": []}`)) },
		"garbage":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) },
	} {
		server := httptest.NewServer(handler)
		status, stdout, stderr := cysim(t, "check", server.URL)
		server.Close()
		if status != 1 || !strings.Contains(stderr, "not a server of cysim") || stdout != "" {
			t.Errorf("%s: %d %q %q", what, status, stdout, stderr)
		}
	}
}

func TestServeWithAFileOfFaults(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "faults.json", `[{"operation": "placement.root.get", "action": "status", "status": 503}]`)
	for _, tt := range []struct{ path, args string }{
		{"/placement/", "serve"}, {"/", "placement"},
	} {
		served := start(t, tt.args, "--faults", file)
		url := served.env["CYSIM_URL"] + served.env["CYSIM_PLACEMENT_URL"]
		if status, body := get(t, url+tt.path, "admin"); status != 503 {
			t.Errorf("%s, the first time: %d %s", tt.args, status, body)
		}
		if status, body := get(t, url+tt.path, "admin"); status != 200 {
			t.Errorf("%s, the second time: %d %s", tt.args, status, body)
		}
	}
}

func TestServeWithAManualClock(t *testing.T) {
	t.Parallel()
	served := start(t, "serve", "--manual-clock", "--clock-start", "2026-01-01T00:00:00Z")
	url := served.env["CYSIM_URL"] + "/_sim/clock"
	if text := put(t, "POST", url, `{"advance": "1h30m"}`); !strings.Contains(text, `"now":"2026-01-01T01:30:00Z"`) {
		t.Errorf("after an hour and a half: %s", text)
	}
	if _, text := get(t, url, ""); !strings.Contains(text, `"manual":true`) {
		t.Errorf("the clock: %s", text)
	}
}

func TestCheckSendsTheControlTokenToItsCloudOnly(t *testing.T) {
	t.Parallel()
	stolen := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen += r.Header.Get(controlTokenHeader) }))
	defer other.Close()
	cloud := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer cloud.Close()
	status, _, stderr := cysim(t, "check", cloud.URL, "--control-token", "secret")
	if status != 1 || !strings.Contains(stderr, "302 Found") || stolen != "" {
		t.Errorf("status %d, %s; the other server got %q", status, stderr, stolen)
	}
}

// TestCheckAsksNovaWhichServersLive: the cloud asks the Nova of its catalog, by --guests-from of either command; one that
// does not answer is an error, with another status than that of leaks.
func TestCheckAsksNovaWhichServersLive(t *testing.T) {
	t.Parallel()
	const server = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	var down atomic.Bool
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			http.Error(w, "no Nova", http.StatusServiceUnavailable)
			return
		case r.URL.Path == "/v2.1/os-migrations":
			_, _ = w.Write([]byte(`{"migrations": []}`))
			return
		}
		_, _ = w.Write([]byte(`{"servers": [{"id": "` + server + `", "OS-EXT-SRV-ATTR:hypervisor_hostname": "cn0"}]}`))
	}))
	t.Cleanup(nova.Close)
	for _, flag := range []string{"serve", "check"} {
		down.Store(false)
		serve, check := []string{"serve", "--catalog", "compute=" + nova.URL + "/v2.1"}, []string{"check"}
		if flag == "serve" {
			serve = append(serve, "--guests-from", "nova")
		} else {
			check = append(check, "--guests-from", "nova")
		}
		file := filepath.Join(t.TempDir(), "clouds.yaml")
		served := start(t, append(serve, "--clouds-yaml", file)...)
		placement := served.env["CYSIM_URL"] + "/placement"
		headers := []string{"X-Auth-Token: " + login(t, file, "sim").Token(), "OpenStack-API-Version: placement 1.38"}
		root := uuidOfOne(t, put(t, http.MethodGet, placement+"/resource_providers?name=cn0", "", headers...))
		put(t, http.MethodPut, placement+"/allocations/"+server, `{"allocations": {"`+root+`": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`, headers...)
		check = append(check, served.env["CYSIM_URL"])
		if status, stdout, stderr := cysim(t, check...); status != 0 {
			t.Errorf("%s: %d %s%s", flag, status, stdout, stderr)
		}
		down.Store(true)
		if status, stdout, stderr := cysim(t, check...); status != 1 || !strings.Contains(stderr, "503 Service Unavailable") {
			t.Errorf("%s: without Nova %d %s%s", flag, status, stdout, stderr)
		}
	}
}

// A command that a signal interrupts has not succeeded: nothing is known of leaks then.
func TestAnInterruptedCommandFails(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	for _, args := range [][]string{{"check", silent.URL}, {"ready", silent.URL}, {"unflatten", "--placement-url", silent.URL}} {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		var out, errs bytes.Buffer
		if status := run(ctx, args, &out, &errs); status != 1 || !strings.Contains(errs.String(), "interrupted: "+args[0]) {
			t.Errorf("%v: status %d, %q, %q", args, status, out.String(), errs.String())
		}
	}
}
