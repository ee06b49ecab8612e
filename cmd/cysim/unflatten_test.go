package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/placementsim"
)

// flatPlacement is a Placement with a host on which an earlier, flat Cyborg
// reported.
func flatPlacement(t *testing.T) (*placementsim.Server, string, string) {
	t.Helper()
	server, err := placementsim.New(placementsim.Config{})
	must(t, err)
	host, err := server.CreateProvider(placementsim.ResourceProvider{
		Name: "cn0", Traits: []string{"OWNER_NOVA", "CUSTOM_GPU_NVIDIA"},
		Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}, "PGPU": {Total: 2}},
	})
	must(t, err)
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	return server, host.UUID, listener.URL
}

func TestUnflatten(t *testing.T) {
	t.Parallel()
	server, host, url := flatPlacement(t)
	command := func(flags ...string) (status int, stdout, stderr string) {
		return cysim(t, append([]string{"unflatten", "--placement-url", url}, flags...)...)
	}
	const instance = "aaaaaaaa-0000-4000-8000-000000000001"
	must(t, server.Claim(placementsim.Claim{Consumer: instance, Allocations: []placementsim.Allocation{{Provider: host, Class: "PGPU", Used: 1}}}))
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		if status, stdout, stderr := command(flags...); status != 1 || stdout != "" || !strings.Contains(stderr, instance) {
			t.Errorf("%v while allocated: %d, %q, %q", flags, status, stdout, stderr)
		}
	}
	must(t, server.Release(instance))
	line := "removed from cn0 (" + host + "): PGPU CUSTOM_GPU_NVIDIA\n"
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--class", "VGPU", "--trait", "CUSTOM_X*", "--dry-run"}, "would be removed from cn0 (" + host + "): PGPU\n"},
		{[]string{"--dry-run"}, "would be " + line},
		{nil, line},
		{nil, "nothing to remove: no compute provider has a class or trait of Cyborg\n"},
	} {
		if status, stdout, stderr := command(tt.flags...); status != 0 || stdout != tt.want {
			t.Errorf("%v: %d, %q, %q; want %q", tt.flags, status, stdout, stderr, tt.want)
		}
	}
	got, err := server.ResourceProvider(host)
	must(t, err)
	if diff := cmp.Diff([]string{"OWNER_NOVA"}, got.Traits); diff != "" || len(got.Inventories) != 1 {
		t.Errorf("left: %+v", got)
	}
}

func TestUnflattenWritesANameInOneLine(t *testing.T) {
	t.Parallel()
	server, _, url := flatPlacement(t)
	_, err := server.CreateProvider(placementsim.ResourceProvider{
		Name: "cn1" + hostile, Traits: []string{"CUSTOM_GPU_NVIDIA"}, Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}, "PGPU": {Total: 2}},
	})
	must(t, err)
	_, out, errs := cysim(t, "unflatten", "--placement-url", url)
	if lines := strings.Count(out, "\n"); lines != 2 || !strings.Contains(out, "cn1x") {
		t.Errorf("%d lines: %q, %q", lines, out, errs)
	}
}

func TestUnflattenWithoutAPlacement(t *testing.T) {
	t.Parallel()
	status, out, text := cysim(t, "unflatten", "--placement-url", "http://127.0.0.1:1", "--placement-token", "my-token")
	if status != 1 || !strings.Contains(text, "list resource providers") || strings.Contains(text, "my-token") || out != "" {
		t.Errorf("got %d, %q, %q", status, out, text)
	}
}

func TestFlagsOfCyborgHaveShortNames(t *testing.T) {
	t.Parallel()
	zed := start(t, "serve", "--release", "zed", "--upstream-quirks", "--placement-mode", "nested", "--token-lifetime", "90s")
	_, body := get(t, zed.env["CYSIM_URL"]+"/accelerator/v2", "")
	if !strings.Contains(body, `"max_version":"2.2"`) {
		t.Errorf("with --release zed: %s", body)
	}
}

// Zed with its defects drops all devices of the recorded world, which have OWNER_CYBORG: a warning for each.
func TestZedWarnsOfEachDeviceThatItDrops(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "testdata", "recorded-world.json")
	zed := start(t, "serve", "--model", file, "--release", "zed", "--upstream-quirks")
	for _, host := range []string{"compute-a", "compute-b"} {
		for _, address := range []string{"0000:3b:00.0", "0000:5e:00.0", "0000:af:00.0"} {
			warned := regexp.MustCompile(`level=WARN msg="device not usable" host=` + host + ` .*device ` + address + `: .*OWNER_CYBORG`)
			if got := len(warned.FindAllString(zed.stderr.String(), -1)); got != 1 {
				t.Errorf("%s %s: %d warnings:\n%s", host, address, got, zed.stderr)
			}
		}
	}
}

func TestTheRecordedWorldIsServed(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "testdata", "recorded-world.json")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	c := start(t, "serve", "--model", file, "--upstream-quirks")
	status, _ := get(t, c.env["CYSIM_URL"]+"/accelerator/v2/devices", "")
	if status != http.StatusUnauthorized {
		t.Errorf("devices without a token: %d", status)
	}
	_, body := get(t, c.env["CYSIM_URL"]+"/_sim/requests", "")
	if strings.Contains(body, `"status":500`) {
		t.Errorf("the world was not built cleanly: %s", body)
	}
}
