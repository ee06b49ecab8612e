package load

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/terminal"
)

// report is the result of a load. Its JSON form is that of -o json.
type report struct {
	Spawns          int           `json:"spawns"`
	Failed          int           `json:"failed"`
	Filled          int           `json:"filled"` // instances of --fill
	Kept            int           `json:"kept"`   // instances of --keep
	Leaks           int           `json:"leaks"`
	Leaked          []string      `json:"leaked,omitempty"` // the leaks
	SpawnsPerSecond float64       `json:"spawns_per_second"`
	LatencyMS       latency       `json:"latency_ms"`
	StepsMS         []stepLatency `json:"steps_ms"`
	Instances       []string      `json:"instances,omitempty"`   // of --keep that a real cloud has now
	MayBeLeft       []string      `json:"may_be_left,omitempty"` // by failed requests of a real cloud, where it was not found

	progress io.Writer
	total    int // spawns to do

	mu     sync.Mutex
	took   time.Duration
	times  times // of the spawns that succeeded
	steps  []*stepTimes
	causes map[string]int // of failures, by text
}

// latency is in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// stepLatency is the latency of a step of a spawn, or of the release.
type stepLatency struct {
	Step string `json:"step"`
	latency
}

type stepTimes struct {
	name string
	times
}

// maxCauses limits the different failures that are counted.
const maxCauses = 5

func newReport(progress io.Writer, total int) *report {
	return &report{progress: progress, total: total, times: make(times, 0, total), StepsMS: []stepLatency{}, causes: make(map[string]int)}
}

// add counts a spawn, and writes a line for each tenth of all.
func (r *report) add(s sample, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Spawns++; r.Spawns*10/r.total != (r.Spawns-1)*10/r.total {
		fmt.Fprintf(r.progress, "%d of %d\n", r.Spawns, r.total)
	}
	if err != nil {
		r.Failed++
		if len(r.causes) < maxCauses {
			r.causes[err.Error()]++
		}
		return
	}
	r.times = append(r.times, s.spawn)
	for _, step := range s.steps {
		r.addStep(step)
	}
}

func (r *report) addStep(s step) {
	at := slices.IndexFunc(r.steps, func(known *stepTimes) bool { return known.name == s.name })
	if at < 0 {
		at = len(r.steps)
		r.steps = append(r.steps, &stepTimes{name: s.name})
	}
	r.steps[at].times = append(r.steps[at].times, s.took)
}

// summarize computes rate and latencies.
func (r *report) summarize() {
	r.LatencyMS = r.times.latency()
	for _, s := range r.steps {
		r.StepsMS = append(r.StepsMS, stepLatency{s.name, s.latency()})
	}
	if r.took > 0 {
		r.SpawnsPerSecond = float64(len(r.times)) / r.took.Seconds()
	}
}

// print writes the numbers.
func (r *report) print(w io.Writer, format string) error {
	r.summarize()
	if format == "json" {
		return json.NewEncoder(w).Encode(r)
	}
	t := command.NewTable()
	t.AppendRows([]table.Row{
		{"spawns", r.Spawns},
		{"failed", r.Failed},
		{"kept", r.Kept + r.Filled},
		{"leaks", r.Leaks},
		{"spawns a second", fmt.Sprintf("%.0f", r.SpawnsPerSecond)},
	})
	latencies := command.NewTable("step", "p50, ms", "p99, ms", "max, ms")
	for _, l := range append([]stepLatency{{"spawn", r.LatencyMS}}, r.StepsMS...) {
		latencies.AppendRow(table.Row{l.Step, fmt.Sprintf("%.2f", l.P50), fmt.Sprintf("%.2f", l.P99), fmt.Sprintf("%.2f", l.Max)})
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s\n", t.Render(), latencies.Render())
	for _, leak := range r.Leaked {
		if err == nil {
			_, err = fmt.Fprintln(w, terminal.Line(leak))
		}
	}
	for _, suspect := range r.MayBeLeft {
		if err == nil {
			_, err = fmt.Fprintln(w, "may be left:", terminal.Line(suspect))
		}
	}
	return err
}

// times are durations in any order.
type times []time.Duration

func (t times) latency() latency {
	slices.Sort(t)
	return latency{P50: t.percentile(50), P99: t.percentile(99), Max: t.percentile(100)}
}

// percentile is the least time, in milliseconds, that so many of 100 do not exceed; 0 without
// any. The times are sorted.
func (t times) percentile(of100 int) float64 {
	if len(t) == 0 {
		return 0
	}
	rank := (len(t)*of100 + 99) / 100
	return float64(t[max(rank, 1)-1].Microseconds()) / 1000
}

// failure is the error of a load with leaks or failed spawns.
func (r *report) failure() error {
	if r.Leaks > 0 {
		return command.Leaked(plural.Count(r.Leaks, "leak"))
	}
	for cause := range r.causes {
		return fmt.Errorf("spawns failed: %d of %d, for example: %s", r.Failed, r.Spawns, cause)
	}
	return nil
}
