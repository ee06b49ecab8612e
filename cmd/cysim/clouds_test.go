package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCloudsFileIsReplacedAtomicallyAndPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "clouds.yaml")
	for _, base := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2"} {
		must(t, checkOwnFile("clouds-yaml", name))
		must(t, writeCloudsFile(name, base, "RegionOne", "", func(user string) string { return "secret of " + user }))
	}
	data, err := os.ReadFile(name)
	must(t, err)
	want := `# Written by cysim serve; valid while it runs.
clouds:
  sim:
    auth:
      auth_url: http://127.0.0.1:2/v3
      username: admin
      password: secret of admin
      project_name: admin
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
  sim-demo:
    auth:
      auth_url: http://127.0.0.1:2/v3
      username: demo
      password: secret of demo
      project_name: demo
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
  sim-svc:
    auth:
      auth_url: http://127.0.0.1:2/v3
      username: nova
      password: secret of nova
      project_name: service
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("clouds.yaml (-want +got):\n%s", diff)
	}
	info, err := os.Stat(name)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode: got %o, want 600", info.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("files left in the directory: %v", entries)
	}
}

func TestForeignCloudsFilesAreNotReplaced(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		wantErr    bool
	}{
		{"empty", "", false},
		{"ours", cloudsMark + "\nclouds: {}\n", false},
		{"foreign clouds", "clouds: {prod: {}}\n", true},
		{"something else", "hello", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := writeFile(t, "clouds.yaml", tt.text)
			if err := checkOwnFile("clouds-yaml", name); (err != nil) != tt.wantErr {
				t.Errorf("got error %v, want one: %v", err, tt.wantErr)
			}
			link := name + ".link"
			must(t, os.Symlink(name, link))
			if err := checkOwnFile("clouds-yaml", link); err == nil {
				t.Error("a link was accepted: the rename would replace it, not what it names")
			}
		})
	}
}

func TestLoadOnACloudOfCloudsYAML(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--clouds-yaml", file)
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	args := []string{"load", "--spawns", "6", "--concurrency", "2", "--cloud", "sim", "--service-cloud", "sim-svc", "--profile", "vgpu"}
	if status, stdout, stderr := cysim(t, args...); status != 0 || !strings.Contains(stdout, " spawns a second ") {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	if _, text := get(t, served.env["CYSIM_URL"]+"/_sim/leaks", ""); !strings.Contains(text, `"leaks":[]`) {
		t.Errorf("leaked: %s", text)
	}
	status, stdout, stderr := cysim(t, append(args, "--keep", "-o", "json")...)
	var kept struct {
		Kept, Leaks int
		Instances   []string
	}
	if err := json.Unmarshal([]byte(stdout), &kept); err != nil || status != 0 || kept.Kept != 6 || kept.Leaks != 0 || len(kept.Instances) != 6 {
		t.Errorf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	_, text := get(t, served.env["CYSIM_URL"]+"/_sim/leaks", "")
	for _, instance := range kept.Instances {
		if !strings.Contains(text, "belongs to instance "+instance+",") {
			t.Errorf("instance %s was not kept: %s", instance, text)
		}
	}
}

// What a failed spawn could not delete is a leak, also where no spawn has succeeded.
func TestLoadCountsWhatFailedSpawnsLeave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--clouds-yaml", file)
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	faults := `[{"operation": "accelerator.arq.bind", "action": "status", "status": 400, "times": -1},
		{"operation": "accelerator.arq.delete", "action": "status", "status": 403, "times": -1}]`
	put(t, http.MethodPut, served.env["CYSIM_URL"]+"/_sim/faults", faults)
	status, stdout, stderr := cysim(t, "load", "--spawns", "2", "--concurrency", "1", "--warmup", "0", "--cloud", "sim", "--service-cloud", "sim-svc")
	if status != 9 || strings.Count(stdout, "\narq ") != 2 {
		t.Errorf("status %d, want 9 and two ARQs: %s%s", status, stdout, stderr)
	}
}

// A load prints its report even if the check for leaks fails.
func TestLoadReportsEvenIfTheLeakCheckFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--clouds-yaml", file)
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	const unread = `{"operation": "placement.resource_provider.list", "nth": 2, "action": "status", "status": 500, "times": 1}`
	const undeleted = `{"operation": "accelerator.arq.delete", "action": "status", "status": 403, "times": -1}`
	for _, tt := range []struct {
		name, faults     string
		flags            []string
		status           int
		leaks, instances int
	}{
		{"kept instances", "[" + unread + "]", []string{"--keep"}, 1, 0, 1},
		{"a deletion that failed", "[" + unread + "," + undeleted + "]", nil, 9, 1, 0},
	} {
		put(t, http.MethodPut, served.env["CYSIM_URL"]+"/_sim/faults", tt.faults)
		args := []string{"load", "--spawns", "1", "--warmup", "0", "--cloud", "sim", "--service-cloud", "sim-svc", "-o", "json"}
		status, stdout, stderr := cysim(t, append(args, tt.flags...)...)
		var told struct{ Leaked, Instances []string }
		err := json.Unmarshal([]byte(stdout), &told)
		if status != tt.status || err != nil || len(told.Leaked) != tt.leaks || len(told.Instances) != tt.instances || !strings.Contains(stderr, "reconcile") {
			t.Errorf("%s: status %d, %v: %s%s", tt.name, status, err, stdout, stderr)
		}
	}
}
