package cloudmodel

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/testrun"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

var (
	seed    = flag.Uint64("cloud.seed", 1, "of the scripts of TestCloud")
	scripts = flag.Int("cloud.scripts", 8, "how many scripts TestCloud plays")
	first   = flag.Int("cloud.first", 0, "the number of the first of them")
	replay  = flag.String("cloud.replay", "", "a file with a script in JSON, which TestCloud plays instead and logs with all operations")
	fresh   = flag.Duration("cloud.fresh", 0, "how long TestFreshSeed plays scripts of a seed of its own")
	tries   = flag.Int("cloud.shrink", 300, "how often a script that fails is tried with less in it")
	cysim   = flag.String("cloud.cysim", "", "the program cysim, for TestCysimCheck")
)

func TestMain(m *testing.M) { testrun.Main(m) }

// run plays a script on a cloud of its own.
func run(t *testing.T, s script, observe bool) (w *world, problems []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if w, err = newWorld(t, s); err != nil {
			problems = []string{err.Error()}
			return
		}
		if began := time.Now(); observe {
			w.cloud.Faults().Observe(func(o sim.OperationName, subject string) { w.note("    %s %s %s", time.Since(began), o, subject) })
		}
		problems = w.play(t.Context(), s)
	})
	return w, problems
}

// rules are a rule for each way in which an operation can fail.
func rules(t *testing.T) (all []fault.Rule) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t)
		cloud.Faults().RegisterWork(work()...)
		all = faultsOf(cloud.Faults())
	})
	return all
}

// tally counts what the scripts of a seed came to.
type tally struct {
	mu      sync.Mutex
	scripts int
	done    map[string]int // actions that did their work
	failure string         // of the first script that failed
}

// play plays scripts of a seed, from the first on, on all processors while more returns true. It ends at a failure.
func (c *tally) play(t *testing.T, seed uint64, first int, more func(n int) bool) {
	t.Helper()
	all := rules(t)
	next := first
	take := func() (n int, ok bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		n, next = next, next+1
		return n, c.failure == "" && more(n)
	}
	c.done = map[string]int{}
	t.Run("scripts", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("side by side", func(t *testing.T) {
				t.Parallel()
				for n, ok := take(); ok; n, ok = take() {
					c.judge(t, seed, n, draw(rand.New(rand.NewPCG(seed, uint64(n))), all))
				}
			})
		}
	})
}

// judge plays a script, and shrinks one that fails.
func (c *tally) judge(t *testing.T, seed uint64, n int, s script) {
	t.Helper()
	w, problems := run(t, s, false)
	if len(problems) > 0 {
		s = shrink(s, *tries, func(smaller script) bool {
			_, problems := run(t, smaller, false)
			return len(problems) > 0
		})
		w, problems = run(t, s, false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts++
	if w != nil {
		for do, times := range w.done {
			c.done[do] += times
		}
	}
	if len(problems) == 0 || c.failure != "" {
		return
	}
	text, err := json.Marshal(s)
	c.failure = fmt.Sprintf("%s\n\ngo test -run TestCloud ./internal/cloudmodel -cloud.seed %d -cloud.first %d -cloud.scripts 1\n\n%s\n\n%s\n\n%s %v",
		strings.Join(problems, "\n"), seed, n, s, strings.Join(w.log, "\n"), text, err)
}

func (c *tally) String() string {
	var list []string
	for _, do := range slices.Sorted(maps.Keys(c.done)) {
		list = append(list, fmt.Sprintf("%s %d", do, c.done[do]))
	}
	return fmt.Sprintf("%d scripts: %s", c.scripts, strings.Join(list, ", "))
}

// TestCloud plays the scripts of a fixed seed.
func TestCloud(t *testing.T) {
	if *replay != "" {
		text, err := os.ReadFile(*replay)
		var s script
		if err != nil || json.Unmarshal(text, &s) != nil {
			t.Fatalf("%s is no script: %v", *replay, err)
		}
		w, problems := run(t, s, true)
		t.Log(strings.Join(w.log, "\n"))
		if len(problems) > 0 {
			t.Error(strings.Join(problems, "\n"))
		}
		return
	}
	var c tally
	c.play(t, *seed, *first, func(n int) bool { return n < *first+*scripts })
	if c.failure != "" {
		t.Error(c.failure)
	}
	t.Log(c.String())
}

// TestFreshSeed plays scripts of a new seed. It reports a failure, and does not
// fail: the change under test need not be its cause.
func TestFreshSeed(t *testing.T) {
	if *fresh == 0 {
		t.Skip("-cloud.fresh is not set")
	}
	seed := uint64(time.Now().UnixNano())
	end := time.Now().Add(*fresh)
	var c tally
	c.play(t, seed, 0, func(int) bool { return time.Now().Before(end) })
	t.Logf("fresh: seed %d: %s", seed, &c)
	if c.failure != "" {
		t.Logf("fresh: it fails: %s", c.failure)
	}
}

// TestCysimCheck compares the answer of cysim check with the leaks that the judge saw, for clouds that had some during a
// script.
func TestCysimCheck(t *testing.T) {
	if *cysim == "" {
		t.Skip("-cloud.cysim is not set")
	}
	type sight struct {
		state simcloud.State
		leaks []simcloud.Leak
	}
	var seen []sight
	all := rules(t)
	for n := 0; len(seen) < 5 && n < 100; n++ {
		s := draw(rand.New(rand.NewPCG(*seed, uint64(n))), all)
		synctest.Test(t, func(t *testing.T) {
			w, err := newWorld(t, s)
			if err != nil {
				t.Fatal(err)
			}
			w.sight = func(v view) {
				state, err := w.cloud.Dump()
				if err != nil {
					t.Error(err)
				}
				if len(v.leaks) > 0 {
					seen, w.sight = append(seen, sight{state, v.leaks}), nil
				}
			}
			w.play(t.Context(), s)
		})
	}
	if len(seen) == 0 {
		t.Fatal("no script has leaks on the way")
	}
	for _, s := range seen {
		cloud, err := simcloud.FromState(t.Context(), s.state)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(cloud.Handler())
		command := exec.Command(filepath.Clean(*cysim), "check", server.URL, "--output", "json")
		var stderr strings.Builder
		command.Stderr = &stderr
		text, ended := command.Output() // with the status of leaks
		var told []simcloud.Leak
		if err := json.Unmarshal(text, &told); err != nil {
			t.Errorf("cysim check: %v: %v: %s%s", ended, err, text, &stderr)
		}
		if diff := cmp.Diff(s.leaks, told); diff != "" {
			t.Errorf("leaks of the cloud (-) and of cysim check (+):\n%s", diff)
		}
		server.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	}
}
