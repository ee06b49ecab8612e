package spawn_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/simcloud"
)

var (
	yearHours  = flag.Int("year.hours", 6, "how many virtual hours TestYear lasts; a year has 8760")
	yearHosts  = flag.Int("year.hosts", 20, "the hosts of TestYear")
	yearSeed   = flag.Uint64("year.seed", 1, "chooses all that happens in TestYear")
	yearPeriod = flag.Duration("year.period", time.Hour, "the period of the reports of Cyborg's agents in TestYear: 1m, which is the real one, or 1h")
	yearLimit  = flag.Duration("year.limit", 0, "end TestYear after the virtual hour in which this real time has passed; 0: after all of its hours")
)

const (
	yearAgents  = 4
	spawnsAnDay = 1000
	// yearPatience is how long a leak of a fault or a crash may last: each agent reconciles every four hours, late
	// requests take minutes, and a host may be down for an hour.
	yearPatience = 8 * time.Hour
	// yearRegion is the device profile whose region is programmed by the bind.
	yearRegion = "crypto-by-id"
)

// year is a cloud with its agents and its operator.
type year struct {
	cloud    *simcloud.Cloud
	stateAt  string // its file
	guests   *hypervisor
	agents   []*yearAgent
	operator *yearOperator
	started  time.Time
	over     atomic.Bool // tells all goroutines to end

	mu        sync.Mutex
	instances map[string]*yearInstance // all that live, and those whose traces may still be there
	trouble   map[string]time.Time     // the last that befell a host; "" for the cloud
	profiles  []string                 // of new instances
	wrong     []string                 // what nothing explains
	history   []string                 // the last failures

	counts counts
	values map[string]*[2]int // the spawns with a value of an axis that succeeded, and those that failed
}

// counts are the counters of the summary.
type counts struct{ spawned, full, failed, ended, operations, crashed, reconciled, freed, refused, checks atomic.Int64 }

// yearInstance is what Nova's database has of an instance.
type yearInstance struct {
	spawn.Instance
	profile  string
	living   bool // it exists, or is being built
	guest    bool // it runs with its devices
	busy     bool // something is done to it
	due      time.Time
	trouble  time.Time // the last fault that hit it
	attempts int       // of what is being done to it
}

// TestYear lets agents run for a year of virtual time, or some hours of it, on a cloud where
// requests get lost, late and refused, events get lost, tokens expire, agents of both kinds
// crash, hosts reboot, devices vanish and come back, Cyborg and Placement restart from their
// file, and operators change profiles. At every virtual hour the first five promises of the
// design hold:
//
//  1. an unmodified client reads what the services have, and no request has anything that
//     they do not know;
//  2. every guest has its accelerators;
//  3. whatever belongs to no guest has a cause, and goes within hours;
//  4. the same question has the same answer, and once a day two clouds made from the state
//     do the same;
//  5. bad requests are refused and change nothing.
//
// In the end all instances are deleted, and every host is filled once more.
func TestYear(t *testing.T) {
	if *yearPeriod != time.Hour && *yearPeriod != time.Minute {
		t.Fatalf("-year.period is 1m or 1h, not %s", *yearPeriod)
	}
	if *yearLimit == 0 {
		t.Parallel()
	}
	var expired atomic.Bool
	var real atomic.Int64 // seconds, which a bubble cannot tell
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for began := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				real.Store(int64(time.Since(began).Seconds()))
				expired.Store(*yearLimit > 0 && time.Since(began) > *yearLimit)
			}
		}
	}()
	at := filepath.Join(memoryDir(t), "state") // made outside of the bubble, and removed there
	synctest.Test(t, func(t *testing.T) {
		y := newYear(t, at)
		hours := y.run(t, &expired, &real)
		y.settle(t)
		t.Logf("%s: %d instances, %d hosts, %d had no room, %d failures, %d operations, %d crashes, %d reconciliations freed %d things, %d refused, %d checks, %d unexplained; %d s",
			time.Duration(hours)*time.Hour, y.counts.spawned.Load(), *yearHosts, y.counts.full.Load(), y.counts.failed.Load(), y.counts.operations.Load(), y.counts.crashed.Load(),
			y.counts.reconciled.Load(), y.counts.freed.Load(), y.counts.refused.Load(), y.counts.checks.Load(), len(y.wrong), real.Load())
		t.Log(y.byValue(t))
		if len(y.wrong) > 0 {
			t.Errorf("%s\n%d unexplained in hour %d:\n%s\nthe last failures:\n%s", repeatYear(hours), len(y.wrong), hours,
				strings.Join(y.wrong, "\n"), strings.Join(y.history, "\n"))
		}
	})
}

// memoryDir returns a directory in memory if there is one, because each change of the cloud waits for its file, and a
// disk takes some milliseconds.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "year")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// repeatYear is the command that repeats a year up to an hour.
func repeatYear(hours int) string {
	commit, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	return fmt.Sprintf("go test -run '^TestYear$' ./cyborgclient/spawn -timeout 0 -year.seed %d -year.hours %d -year.hosts %d -year.period %s # commit %s",
		*yearSeed, hours, *yearHosts, *yearPeriod, strings.TrimSpace(string(commit)))
}

func newYear(t *testing.T, stateAt string) *year {
	t.Helper()
	y := &year{stateAt: stateAt, instances: map[string]*yearInstance{}, trouble: map[string]time.Time{}, profiles: []string{"gpu", "gpu", "vgpu", "fpga", "fake", yearRegion}, values: map[string]*[2]int{}}
	options := []simcloud.Option{simcloud.WithStateFile(stateAt)}
	if *yearPeriod == time.Minute {
		options = append(options, simcloud.WithAgentLoop())
	}
	var err error
	if y.cloud, err = simcloud.New(t.Context(), yearModel(), options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	y.guests = newHypervisor(y.cloud)
	y.guests.named = map[string]string{}
	for _, node := range y.cloud.HostNames() {
		y.guests.named[shortName(node)] = node
	}
	y.started = time.Now()
	for n := range yearAgents {
		a := &yearAgent{year: y, number: n, random: y.random(uint64(n))}
		for i, host := range y.cloud.HostNames() {
			if i%yearAgents == n {
				a.hosts = append(a.hosts, host)
			}
		}
		y.agents = append(y.agents, a)
	}
	y.operator = newYearOperator(y)
	return y
}

// yearModel has four GPUs on most hosts, and on every fourth the hardware of the default model.
// Cyborg binds in the background. Every second node has a whole name, and Nova's host there the short one.
func yearModel() simcloud.Model {
	all := simcloud.DefaultModel()
	model := simcloud.ScaleModel(*yearHosts, 4)
	model.Seed, model.DeviceProfiles = *yearSeed, all.DeviceProfiles
	for i := 0; i < len(model.Hosts); i += 4 {
		host := all.Hosts[0]
		host.Name, host.VCPUs = model.Hosts[i].Name, 256
		host.Providers = slices.Clone(host.Providers)
		host.Providers[0].Name = host.Name + "_nic"
		model.Hosts[i] = host
	}
	for i := 1; i < len(model.Hosts); i += 2 {
		model.Hosts[i].Name += ".example.com"
	}
	model.Images, model.Cyborg.RuntimeProgramming = programModel().Images, true
	model.DeviceProfiles = append(model.DeviceProfiles, regionProfile(yearRegion, "accel:function_id", cryptoID))
	model.Cyborg.AsyncBind, model.Cyborg.BindDelay, model.Cyborg.BindingStates = true, time.Second+23*time.Microsecond, true
	return model
}

// random is a source of its own for each purpose.
func (y *year) random(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(*yearSeed, purpose)) }

// run runs all goroutines until the end, checks every hour, and returns the number of hours.
func (y *year) run(t *testing.T, expired *atomic.Bool, real *atomic.Int64) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for _, a := range y.agents {
		group.Go(func() { a.work(ctx) })
	}
	group.Go(func() { y.operator.work(ctx) })
	if *yearPeriod == time.Hour {
		group.Go(func() { y.operator.reports(ctx) })
	}
	hour := 0
	checks := newYearChecks(y)
	for hour < *yearHours && !expired.Load() && len(y.wrong) == 0 && !t.Failed() {
		hour++
		time.Sleep(time.Until(y.started.Add(time.Duration(hour) * time.Hour)))
		checks.all(t, hour)
		if hour%24 == 0 || hour == *yearHours {
			t.Logf("hour %d: %d spawned, %d failed, %d living, %d leaks explained, state %s of %d KiB, %d s", hour, y.counts.spawned.Load(), y.counts.failed.Load(),
				len(y.cloud.Guests()), checks.explained, y.digest(), fileSize(y.stateAt)>>10, real.Load())
			checks.explained = 0
		}
	}
	y.over.Store(true)
	group.Wait()
	return hour
}

// digest is the same for the same state.
func (y *year) digest() string {
	state, err := y.cloud.Dump()
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(state)
	return hex.EncodeToString(sum[:6])
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}

// unexplained records a violation. The run ends at the next check.
func (y *year) unexplained(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	const most = 20
	if len(y.wrong) < most {
		y.wrong = append(y.wrong, fmt.Sprintf("%s: ", time.Since(y.started).Round(time.Second))+fmt.Sprintf(format, args...))
	}
}

// tried counts a spawn, or another operation, with values.
func (y *year) tried(err error, values ...string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, v := range values {
		if y.values[v] == nil {
			y.values[v] = new([2]int)
		}
		if err == nil {
			y.values[v][0]++
		} else {
			y.values[v][1]++
		}
	}
}

// byValue lists the counts. A value that was never tried fails the test.
func (y *year) byValue(t *testing.T) string {
	t.Helper()
	for _, v := range []string{
		"one process", "two processes", "an administrator's token", "a member's token with the request",
		"a short name of the host", "a whole name of the node", "profile gpu", "profile vgpu", "profile fpga", "profile fake", "profile " + yearRegion, "program",
	} {
		if y.values[v] == nil {
			t.Errorf("no instance with %s", v)
		}
	}
	var list []string
	for _, v := range slices.Sorted(maps.Keys(y.values)) {
		list = append(list, fmt.Sprintf("%s %d, failed %d", v, y.values[v][0], y.values[v][1]))
	}
	return strings.Join(list, "; ")
}

// happened records the last failures for the report of violations.
func (y *year) happened(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	const most = 20
	y.history = append(y.history[max(0, len(y.history)-most):], fmt.Sprintf("%s: ", time.Since(y.started).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// befell records a fault of a host, or of the cloud if host is "".
func (y *year) befell(host string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.trouble[host] = time.Now()
}

// settle ends the faults, deletes all instances, lets every agent reconcile after the last late request, checks for
// leaks, and fills every host.
func (y *year) settle(t *testing.T) {
	t.Helper()
	if len(y.wrong) > 0 || t.Failed() {
		return
	}
	ctx := t.Context()
	y.operator.settle(ctx)
	for _, a := range y.agents {
		a.settle(ctx)
	}
	time.Sleep(20 * time.Minute)
	y.report(ctx)
	for _, a := range y.agents {
		a.reconcile(ctx)
	}
	y.report(ctx)
	for _, leak := range y.cloud.Leaks() {
		y.unexplained("after the end: %s", leak.Text)
	}
	if err := y.fill(ctx); err != nil {
		y.unexplained("after the end: %v", err)
	}
}

// report makes all agents of Cyborg report once.
func (y *year) report(ctx context.Context) {
	if err := y.cloud.Cyborg.Report(ctx); err != nil {
		y.unexplained("after the end: %v", err)
	}
}

// fill spawns as many instances of each profile as there are devices for it.
func (y *year) fill(ctx context.Context) error {
	a := y.agents[0]
	var broken []error
	whole := (*yearHosts + 3) / 4 // hosts with the default hardware
	for profile, want := range map[string]int{"gpu": 2*whole + 4*(*yearHosts-whole), "vgpu": 16 * whole, "fpga": whole, "fake": 16 * whole} {
		fit := 0
		var err error
		for err == nil {
			req := request(profile)
			req.Instance = a.newID()
			if _, err = a.flow.Run(ctx, req); err == nil {
				fit++
			}
		}
		if fit != want || !errors.Is(err, spawn.ErrNoCandidates) {
			broken = append(broken, fmt.Errorf("%d instances of profile %s fit, want %d; then %w", fit, profile, want, err))
		}
	}
	return errors.Join(broken...)
}
