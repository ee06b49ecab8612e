package load

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// runLoad runs cysim load and returns its exit status.
func runLoad(t *testing.T, stdout, stderr *bytes.Buffer, args ...string) int {
	t.Helper()
	return command.Run(t.Context(), new(Command), args, stdout, stderr)
}

func TestLoadSpawnsAndDeletes(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := runLoad(t, &stdout, &stderr, "--spawns", "40", "--concurrency", "8", "-o", "json"); status != 0 {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	var got map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	rate, _ := got["spawns_per_second"].(float64)
	latency, _ := got["latency_ms"].(map[string]any)
	p50, _ := latency["p50"].(float64)
	p99, _ := latency["p99"].(float64)
	most, _ := latency["max"].(float64)
	if rate <= 0 || p50 <= 0 || p99 < p50 || most < p99 || len(latency) != 3 {
		t.Errorf("rate %v, latencies %v", rate, latency)
	}
	delete(got, "spawns_per_second")
	delete(got, "latency_ms")
	if diff := cmp.Diff(map[string]any{"spawns": 40.0, "failed": 0.0, "leaks": 0.0}, got); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	if lines := strings.Split(strings.TrimSpace(stderr.String()), "\n"); len(lines) != 10 || lines[9] != "40 of 40" {
		t.Errorf("progress: %q", lines)
	}
}

func TestLoadReportsWhySpawnsFailed(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	status := runLoad(t, &stdout, &stderr, "--spawns", "3", "--concurrency", "1", "--profile", "none")
	if status != 1 || !strings.Contains(stderr.String(), "3 of 3, such as: ") || !strings.Contains(stderr.String(), "none") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	if !strings.Contains(stdout.String(), "failed                       3") {
		t.Errorf("the table: %s", stdout.String())
	}
}

func TestPercentilesOfALoad(t *testing.T) {
	t.Parallel()
	r := newReport(io.Discard, 100)
	for n := 100; n > 0; n-- {
		r.add(time.Duration(n)*time.Millisecond, nil)
	}
	r.took = 2 * time.Second
	r.Leaks = 1
	var out bytes.Buffer
	if err := r.print(&out, "json"); err != nil {
		t.Fatal(err)
	}
	want := `{"spawns":100,"failed":0,"leaks":1,"spawns_per_second":50,"latency_ms":{"p50":50,"p99":99,"max":100}}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
	if err := r.failure(); err == nil || !strings.Contains(err.Error(), "leaked: 1") {
		t.Errorf("failure: %v", err)
	}
}

func TestPercentilesOfFewSpawns(t *testing.T) {
	t.Parallel()
	for spawns, want := range map[int]latency{
		0: {}, 1: {P50: 1, P99: 1, Max: 1}, 2: {P50: 1, P99: 2, Max: 2}, 3: {P50: 2, P99: 3, Max: 3},
		99: {P50: 50, P99: 99, Max: 99}, 101: {P50: 51, P99: 100, Max: 101}, 200: {P50: 100, P99: 198, Max: 200},
	} {
		r := newReport(io.Discard, max(spawns, 1))
		for n := range spawns {
			r.add(time.Duration(n+1)*time.Millisecond, nil)
		}
		if err := r.print(io.Discard, "json"); err != nil || r.LatencyMS != want {
			t.Errorf("%d spawns: %+v, want %+v, %v", spawns, r.LatencyMS, want, err)
		}
	}
}

func TestALoadOfACloudOfAnotherSize(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := runLoad(t, &stdout, &stderr, "--hosts", "1", "--devices", "2", "--spawns", "4", "--concurrency", "1", "-o", "json"); status != 0 {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	for _, args := range [][]string{{"--hosts", "0"}, {"--devices", "0"}, {"--devices", "241"}, {"--cloud", "real", "--hosts", "9"}} {
		if status := runLoad(t, &stdout, &stderr, args...); status != 2 {
			t.Errorf("%q: status %d", args, status)
		}
	}
	cloud, err := (&Command{Hosts: 3, Devices: 5}).embeddedTarget(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.close()
	if hosts, devices := len(cloud.cloud.HostNames()), len(cloud.cloud.Cyborg.Devices()); hosts != 3 || devices != 15 {
		t.Errorf("%d hosts, %d devices", hosts, devices)
	}
}

// interrupter ends a load at its first line of progress.
type interrupter struct{ cancel context.CancelFunc }

func (i interrupter) Write(p []byte) (int, error) {
	i.cancel()
	return len(p), nil
}

func TestAnInterruptedLoadLeaksNothing(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stdout bytes.Buffer
			load := &Command{Spawns: 200, Concurrency: 16, Cloud: "embedded", Hosts: 8, Devices: 8, Profile: "gpu", Output: "json"}
			err := load.Run(ctx, &command.Process{Stdout: &stdout, Stderr: interrupter{cancel}, Log: slog.New(slog.DiscardHandler)})
			var got struct{ Spawns, Leaks int }
			if json.Unmarshal(stdout.Bytes(), &got) != nil || got.Leaks != 0 || got.Spawns == load.Spawns {
				t.Errorf("load %d: %s, %v", n, stdout.String(), err)
			}
		})
	}
}
