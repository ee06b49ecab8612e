//go:build oracle

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// debianCloud is Debian's Keystone and Placement, and what a test makes in them.
type debianCloud struct {
	auth, placement string            // URLs
	admin           string            // token
	roles           map[string]string // ids by name
}

func startDebianCloud(t *testing.T) *debianCloud {
	t.Helper()
	c := &debianCloud{auth: startReal(t, "keystone", "testdata/oracle/keystone.py") + "/v3", roles: make(map[string]string)}
	c.placement = startPlacement(t, c.auth)
	c.admin = tokenFor(t, c.auth, "admin", "admin")
	placement := c.make(t, "service", `{"type": "placement", "name": "placement"}`)
	c.make(t, "endpoint", fmt.Sprintf(`{"service_id": %q, "interface": "public", "region_id": "RegionOne", "url": %q}`, placement, c.placement))
	for _, name := range []string{"service", "demo"} {
		c.make(t, "project", `{"name": "`+name+`", "domain_id": "default"}`)
	}
	var list struct{ Roles []struct{ ID, Name string } }
	status, text := reply(t, http.MethodGet, c.auth+"/roles", "", "X-Auth-Token: "+c.admin)
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK {
		t.Fatalf("roles: %d %s", status, text)
	}
	for _, role := range list.Roles {
		c.roles[role.Name] = role.ID
	}
	if c.roles["service"] == "" {
		c.roles["service"] = c.make(t, "role", `{"name": "service"}`)
	}
	return c
}

// make creates an object of Keystone and returns its id.
func (c *debianCloud) make(t *testing.T, kind, body string) string {
	t.Helper()
	status, text := reply(t, http.MethodPost, c.auth+"/"+kind+"s", `{"`+kind+`": `+body+`}`, "X-Auth-Token: "+c.admin)
	var made map[string]struct{ ID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated {
		t.Fatalf("create %s %s: %d %s", kind, body, status, text)
	}
	return made[kind].ID
}

// idOf finds the one object of a name.
func (c *debianCloud) idOf(t *testing.T, kind, name string) string {
	t.Helper()
	_, text := reply(t, http.MethodGet, c.auth+"/"+kind+"s?name="+name, "", "X-Auth-Token: "+c.admin)
	var list map[string]json.RawMessage
	var found []struct{ ID string }
	if err := json.Unmarshal([]byte(text), &list); err != nil || json.Unmarshal(list[kind+"s"], &found) != nil || len(found) != 1 {
		t.Fatalf("%s %s: %s", kind, name, text)
	}
	return found[0].ID
}

// tokenAs makes a user with one role in a project and returns a token.
func (c *debianCloud) tokenAs(t *testing.T, user, project, role string) string {
	t.Helper()
	id := c.make(t, "user", `{"name": "`+user+`", "password": "secret", "domain_id": "default"}`)
	path := c.auth + "/projects/" + c.idOf(t, "project", project) + "/users/" + id + "/roles/" + c.roles[role]
	if status, text := reply(t, http.MethodPut, path, "", "X-Auth-Token: "+c.admin); status != http.StatusNoContent {
		t.Fatalf("role %s of %s: %d %s", role, user, status, text)
	}
	return tokenFor(t, c.auth, user, project)
}

// pageScript is the commands of docs/real-cloud.md, in their order.
func pageScript(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/real-cloud.md")
	must(t, err)
	script := ""
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(page, -1) {
		script += string(block[1])
	}
	return script
}

// The commands of the page, one after the other, against the real Keystone and the real Placement.
func TestCyborgBesideTheRealPlacementAndKeystone(t *testing.T) {
	cloud := startDebianCloud(t)
	dir, sysfs := t.TempDir(), t.TempDir()
	layOutGPUs(t, sysfs, "0000:81:00.0", "0000:82:00.0", "0000:83:00.0")
	hostname, err := os.Hostname()
	must(t, err)
	put(t, http.MethodPost, cloud.placement+"/resource_providers", `{"name": "`+hostname+`"}`, "X-Auth-Token: "+cloud.admin)
	p := runPage(t, cloud, dir, sysfs)
	names := func(addresses ...string) []string {
		list := []string{hostname}
		for _, address := range addresses {
			list = append(list, hostname+"_0000:"+address+":00.0")
		}
		return list
	}
	if diff := cmp.Diff(names("81", "82", "83"), providersOf(t, cloud.placement, cloud.admin)); diff != "" {
		t.Errorf("providers (-want +got):\n%s\n%s", diff, p.log(t))
	}
	for _, want := range []string{"10de", "resources:PGPU", hostname + "_0000:83:00.0"} {
		if !strings.Contains(p.printed, want) {
			t.Errorf("the page's commands do not print %s:\n%s", want, p.printed)
		}
	}
	p.testRenewal(t, cloud)
	request := p.testPolicy(t, cloud, hostname)
	before := p.log(t)
	p.signal(t, syscall.SIGTERM)
	if atEnd := strings.TrimPrefix(p.log(t), before); strings.Contains(atEnd, "cysim: ") {
		t.Errorf("SIGTERM: %s", atEnd)
	}
	layOutGPUs(t, sysfs, "0000:82:00.0", "0000:84:00.0") // 83 is in use
	p.restart(t)
	if diff := cmp.Diff(names("82", "83", "84"), providersOf(t, cloud.placement, cloud.admin)); diff != "" {
		t.Errorf("providers after the restart (-want +got):\n%s\n%s", diff, p.log(t))
	}
	if status, text := p.ask(t, cloud.admin, "GET", "/accelerator_requests/"+request, ""); status != http.StatusOK || !strings.Contains(text, `"Bound"`) {
		t.Errorf("the request after the restart: %d %s", status, text)
	}
	if status, text := p.ask(t, cloud.admin, "DELETE", "/accelerator_requests?arqs="+request, "", "X-Service-Token: "+p.service); status != http.StatusNoContent {
		t.Errorf("delete: %d %s", status, text)
	}
	if status, text := p.report(t); status != http.StatusNoContent {
		t.Errorf("report: %d %s", status, text)
	}
	if diff := cmp.Diff(names("82", "84"), providersOf(t, cloud.placement, cloud.admin)); diff != "" {
		t.Errorf("providers when nothing is in use (-want +got):\n%s", diff)
	}
	p.signal(t, syscall.SIGTERM)
	for _, secret := range []string{cloud.admin, "gAAAA", "secret-of-cyborg"} {
		if strings.Contains(p.log(t), secret) {
			t.Errorf("the log has %s:\n%s", secret, p.log(t))
		}
	}
}

// pageProcess is the cysim that the page starts.
type pageProcess struct {
	dir, port, printed, start string
	env                       []string
	pid                       int
	service                   string // token of Nova
}

// runPage runs the page's commands in a directory. The port and the mount point of sysfs are
// the test's.
func runPage(t *testing.T, cloud *debianCloud, dir, sysfs string) *pageProcess {
	t.Helper()
	p := &pageProcess{dir: dir, port: freePorts(t, 1)}
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", asCommand, os.Args[0])
	must(t, os.WriteFile(filepath.Join(dir, "cysim"), []byte(wrapper), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "cyborg.conf"), []byte("[agent]\nenabled_drivers = nvidia_gpu_driver\n"), 0o600))
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OS_") {
			p.env = append(p.env, variable)
		}
	}
	p.env = append(p.env, "PATH="+dir+":/usr/bin:"+os.Getenv("PATH"), "CYBORG_PASSWORD=secret-of-cyborg", "COMPUTE_HOST=127.0.0.1",
		"OS_AUTH_URL="+cloud.auth, "OS_USERNAME=admin", "OS_PASSWORD=secret", "OS_PROJECT_NAME=admin", "OS_USER_DOMAIN_NAME=Default",
		"OS_PROJECT_DOMAIN_NAME=Default", "OS_IDENTITY_API_VERSION=3", "OS_REGION_NAME=RegionOne", "OS_PLACEMENT_API_VERSION=1.39")
	script := strings.NewReplacer(":6666", ":"+p.port, "/sys ", sysfs+" ").Replace(pageScript(t))
	p.start = script[strings.Index(script, "export CYSIM_CONTROL_TOKEN"):strings.Index(script, "openstack resource provider list")]
	p.bash(t, script)
	return p
}

// bash runs commands. The last one may continue in the background.
func (p *pageProcess) bash(t *testing.T, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script+"\necho \"control token: $CYSIM_CONTROL_TOKEN\"\n")
	cmd.Dir, cmd.Env = p.dir, p.env
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Run()
	p.printed = printed.String()
	exports, _ := os.ReadFile(filepath.Join(p.dir, "cyborg.env"))
	if match := regexp.MustCompile(`CYSIM_PID=(\d+)`).FindSubmatch(exports); match != nil {
		p.pid, _ = strconv.Atoi(string(match[1]))
		t.Cleanup(func() { _ = syscall.Kill(p.pid, syscall.SIGKILL) })
	}
	if err != nil || p.pid == 0 {
		t.Fatalf("the commands of the page: %v\n%s\n%s", err, p.printed, p.log(t))
	}
}

func (p *pageProcess) restart(t *testing.T) {
	t.Helper()
	p.pid = 0
	p.bash(t, p.start)
}

// signal sends a signal and waits for the end of the process, which is no child.
func (p *pageProcess) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(p.pid, signal))
	deadline := time.Now().Add(time.Minute)
	for syscall.Kill(p.pid, 0) == nil && time.Now().Before(deadline) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return // a zombie
		}
	}
}

func (p *pageProcess) log(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "cyborg.log"))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// ask sends a request to Cyborg with the token of a user, and headers.
func (p *pageProcess) ask(t *testing.T, token, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	return reply(t, method, "http://127.0.0.1:"+p.port+"/v2"+path, body,
		append([]string{"X-Auth-Token: " + token, "OpenStack-API-Version: accelerator 2.2"}, headers...)...)
}

// report lets Cyborg report now.
func (p *pageProcess) report(t *testing.T) (int, string) {
	t.Helper()
	_, control, _ := strings.Cut(p.printed, "control token: ")
	return reply(t, http.MethodPost, "http://127.0.0.1:"+p.port+"/_sim/report", "", "X-Control-Token: "+strings.TrimSpace(control))
}

// testRenewal has Keystone revoke all tokens of Cyborg. Revocations count in seconds: a token that
// is issued in the same second is revoked, too.
func (p *pageProcess) testRenewal(t *testing.T, cloud *debianCloud) {
	t.Helper()
	user := cloud.idOf(t, "user", "cyborg")
	for _, enabled := range []string{"false", "true"} {
		if status, text := reply(t, http.MethodPatch, cloud.auth+"/users/"+user, `{"user": {"enabled": `+enabled+`}}`, "X-Auth-Token: "+cloud.admin); status != http.StatusOK {
			t.Fatalf("user cyborg, enabled %s: %d %s", enabled, status, text)
		}
		status, text := p.report(t)
		if enabled == "false" && (status != http.StatusBadGateway || strings.Contains(text, "secret-of-cyborg")) {
			t.Errorf("a report of a user that is disabled: %d %s", status, text)
		}
		for deadline := time.Now().Add(time.Minute); enabled == "true" && status != http.StatusNoContent; status, text = p.report(t) {
			if time.Now().After(deadline) {
				t.Fatalf("the token is not renewed: %d %s", status, text)
			}
		}
	}
}

// testPolicy asks with tokens of several roles. It returns a request that is bound to 0000:83:00.0.
func (p *pageProcess) testPolicy(t *testing.T, cloud *debianCloud, hostname string) (request string) {
	t.Helper()
	reader := cloud.tokenAs(t, "reader", "demo", "reader")
	member := cloud.tokenAs(t, "member", "demo", "member")
	service := cloud.tokenAs(t, "nova", "service", "service")
	p.service = service
	profile := `[{"name": "p", "groups": [{"resources:PGPU": "1"}]}]`
	_, list := reply(t, http.MethodGet, cloud.placement+"/resource_providers?name="+hostname+"_0000%3A83%3A00.0", "", "X-Auth-Token: "+cloud.admin)
	var created struct{ ARQs []struct{ UUID string } }
	for _, tt := range []struct {
		want                      int
		token, method, path, body string
	}{
		{http.StatusUnauthorized, "", "GET", "/devices", ""},
		{http.StatusUnauthorized, "admin", "GET", "/devices", ""},
		{http.StatusUnauthorized, cloud.admin + "x", "GET", "/devices", ""},
		{http.StatusOK, reader, "GET", "/device_profiles", ""},
		{http.StatusForbidden, member, "POST", "/device_profiles", profile},
		{http.StatusForbidden, service, "POST", "/device_profiles", profile},
		{http.StatusCreated, cloud.admin, "POST", "/device_profiles", profile},
		{http.StatusCreated, member, "POST", "/accelerator_requests", `{"device_profile_name": "p"}`},
	} {
		status, text := p.ask(t, tt.token, tt.method, tt.path, tt.body)
		if status != tt.want {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, status, text, tt.want)
		}
		if strings.Contains(tt.path, "requests") && json.Unmarshal([]byte(text), &created) != nil || created.ARQs == nil && strings.Contains(tt.path, "requests") {
			t.Fatalf("the request: %s", text)
		}
	}
	request = created.ARQs[0].UUID
	patch := fmt.Sprintf(`{%q: [{"op": "add", "path": "/hostname", "value": %q}, {"op": "add", "path": "/instance_uuid", "value": "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"},
		{"op": "add", "path": "/device_rp_uuid", "value": %q}]}`, request, hostname, uuidOfOne(t, list))
	for header, want := range map[string]int{"X-None: ": http.StatusForbidden, "X-Service-Token: nova": http.StatusUnauthorized} {
		if status, text := p.ask(t, member, "PATCH", "/accelerator_requests", patch, header); status != want {
			t.Errorf("bind with %s: %d %s, want %d", header, status, text, want)
		}
	}
	if status, text := p.ask(t, member, "PATCH", "/accelerator_requests", patch, "X-Service-Token: "+member); status != http.StatusUnauthorized {
		t.Errorf("bind with a member's token as service token: %d %s", status, text)
	}
	if status, text := p.ask(t, member, "PATCH", "/accelerator_requests", patch, "X-Service-Token: "+service); status != http.StatusAccepted {
		t.Errorf("bind: %d %s", status, text)
	}
	if !slices.Contains(providersOf(t, cloud.placement, cloud.admin), hostname+"_0000:83:00.0") {
		t.Error("the provider was deleted")
	}
	return request
}
