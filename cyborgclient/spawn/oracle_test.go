//go:build oracle

package spawn_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

const python = "/usr/bin/python3"

// realPlacement is a running service of Debian's python3-placement over sqlite.
type realPlacement struct{ url, database string }

func startPlacement(t *testing.T) realPlacement {
	t.Helper()
	if err := exec.Command(python, "-c", "import placement.wsgi").Run(); err != nil {
		t.Fatalf("the real Placement is not here (%v): install Debian's python3-placement (apt-get install python3-placement)", err)
	}
	launcher, err := os.ReadFile("../../placementsim/testdata/oracle/serve.py")
	settled(t, err)
	dir := t.TempDir()
	var log bytes.Buffer
	cmd := exec.Command(python, "-W", "ignore", "-B", "-c", string(launcher), dir)
	cmd.Stderr = &log
	stdin, err := cmd.StdinPipe()
	settled(t, err)
	stdout, err := cmd.StdoutPipe()
	settled(t, err)
	settled(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	port, notNumber := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, notNumber); err != nil {
		t.Fatalf("start the real Placement: %v", err) // its log is still being written
	}
	return realPlacement{fmt.Sprintf("http://127.0.0.1:%d", port), filepath.Join(dir, "placement.sqlite")}
}

// rows counts what is in tables of the database.
func (p realPlacement) rows(t *testing.T, tables ...string) map[string]int {
	t.Helper()
	const script = `import json, sqlite3, sys
c = sqlite3.connect(sys.argv[1])
print(json.dumps({t: c.execute('select count(*) from ' + t).fetchone()[0] for t in sys.argv[2:]}))`
	out, err := exec.Command(python, append([]string{"-c", script, p.database}, tables...)...).Output()
	settled(t, err)
	var counts map[string]int
	settled(t, json.Unmarshal(out, &counts))
	return counts
}

// checkEmpty looks into the tables and asks the API.
func (p realPlacement) checkEmpty(t *testing.T, tables ...string) {
	t.Helper()
	want := make(map[string]int)
	for _, table := range tables {
		want[table] = 0
	}
	checkDiff(t, "rows in the real Placement's tables (-want +got)", want, p.rows(t, tables...))
}

func (p realPlacement) get(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	settled(t, err)
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.36")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	settled(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v: %s", path, res.Status, err, body)
	}
	return string(body)
}

// realWorld is a cloud whose Placement is the real one.
func realWorld(t *testing.T, config spawn.Config) (*world, realPlacement) {
	t.Helper()
	real := startPlacement(t)
	cloud, err := simcloud.New(t.Context(), simcloud.DefaultModel(),
		simcloud.WithExternalPlacement(real.url, "admin"))
	settled(t, err)
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
		real.checkEmpty(t, "allocations", "consumers", "resource_providers", "inventories", "resource_provider_traits")
	})
	w := &world{cloud: cloud, events: externalevent.NewRegistry()}
	cloud.HandleEvents(w.events.Handler())
	w.connect(t, cloud.Provider(t), spawn.WithConfig(config))
	return w, real
}

func TestRealPlacementSpawnAndDelete(t *testing.T) {
	w, real := realWorld(t, spawn.Config{})
	for _, profile := range []string{"gpu", "vgpu", "fpga", "fake", "mixed"} {
		t.Run(profile, func(t *testing.T) {
			result := w.spawned(t, request(profile))
			if used := real.get(t, "/allocations/"+instance); !strings.Contains(used, result.ARQs[0].DeviceRPUUID) {
				t.Errorf("the real Placement knows nothing of the device: %s", used)
			}
			w.cloud.RemoveGuest(instance)
			settled(t, w.flow.Release(t.Context(), instance))
			w.cloud.CheckNoLeaks(t)
			real.checkEmpty(t, "allocations", "consumers")
			if used := real.get(t, "/allocations/"+instance); !strings.Contains(used, `"allocations": {}`) {
				t.Errorf("after the delete: %s", used)
			}
		})
	}
}

func TestRealPlacementReschedule(t *testing.T) {
	w, real := realWorld(t, spawn.Config{})
	w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, When: fault.After})
	result := w.spawned(t, request("mixed"))
	if claims := claimsOf(result.Trace); claims != 2 {
		t.Errorf("%d claims, want one on each of two hosts", claims)
	}
	w.cloud.RemoveGuest(instance)
	settled(t, w.flow.Release(t.Context(), instance))
	real.checkEmpty(t, "allocations", "consumers")

	w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, Times: -1})
	result, err := w.flow.Run(t.Context(), request("mixed"))
	w.failed(t, result, err, spawn.StepBind, cyborgclient.ErrUnavailable)
	real.checkEmpty(t, "allocations", "consumers")
}

func claimsOf(trace []spawn.StepTrace) int {
	n := 0
	for _, step := range trace {
		for _, r := range step.Requests {
			if r.Name == "PUT allocations" && r.Status == http.StatusNoContent {
				n++
			}
		}
	}
	return n
}

func TestRealPlacementSearchAndNumericSuffixes(t *testing.T) {
	for _, compat := range []spawn.Compat{{SearchProviders: true}, {NumericSuffixes: true}} {
		w, real := realWorld(t, spawn.Config{Compat: compat})
		w.spawned(t, request("mixed"))
		w.cloud.RemoveGuest(instance)
		settled(t, w.flow.Release(t.Context(), instance))
		real.checkEmpty(t, "allocations", "consumers")
	}
}

func TestRealPlacementRefusesATakenDevice(t *testing.T) {
	w, _ := realWorld(t, spawn.Config{MaxAttempts: 1})
	fpga := request("fpga") // a provider of one unit, unlike the board of two GPUs
	var wanted []spawn.Candidate
	fpga.Order = func(all []spawn.Candidate) []spawn.Candidate { // no other candidate, also when asked again
		if wanted == nil {
			wanted = all[:1]
		}
		return slices.DeleteFunc(all, func(c spawn.Candidate) bool { return !cmp.Equal(c.Allocations, wanted[0].Allocations) })
	}
	other, err := w.flow.Begin(t.Context(), fpga)
	settled(t, err)
	settled(t, walk(t.Context(), other.ReadProfile, other.BuildRequest, other.FindCandidates, other.Select))
	const rival = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b0ff"
	req := request("fpga")
	req.Instance = rival
	req.Order = func([]spawn.Candidate) []spawn.Candidate { return []spawn.Candidate{*other.Chosen} }
	result, err := w.flow.Run(t.Context(), req)
	settled(t, err)
	if err := other.Claim(t.Context()); !errors.Is(err, spawn.ErrClaim) || errors.Is(err, spawn.ErrOwnerConflict) ||
		!strings.Contains(err.Error(), "(1 candidate)") || !strings.Contains(err.Error(), result.ARQs[0].DeviceRPUUID) {
		t.Errorf("got error %v, want ErrClaim that names the provider %s", err, result.ARQs[0].DeviceRPUUID)
	}
	other.Unwind(t.Context())
	settled(t, w.flow.Release(t.Context(), rival))
}
