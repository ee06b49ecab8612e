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
)

// report is the result of a load. Its JSON form is that of -o json.
type report struct {
	Spawns          int     `json:"spawns"`
	Failed          int     `json:"failed"`
	Leaks           int     `json:"leaks"`
	SpawnsPerSecond float64 `json:"spawns_per_second"`
	LatencyMS       latency `json:"latency_ms"`

	progress io.Writer
	total    int // spawns to do

	mu     sync.Mutex
	took   time.Duration
	times  []time.Duration // of the spawns that succeeded
	leaks  []string
	causes map[string]int // of failures, by text
}

// latency is in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// maxCauses limits the different failures that are counted.
const maxCauses = 5

func newReport(progress io.Writer, total int) *report {
	return &report{progress: progress, total: total, times: make([]time.Duration, 0, min(total, 1<<20)), causes: make(map[string]int)}
}

// add counts a spawn, and writes a line for each tenth of all.
func (r *report) add(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Spawns++; r.Spawns*10/r.total != (r.Spawns-1)*10/r.total {
		fmt.Fprintf(r.progress, "%d of %d\n", r.Spawns, r.total)
	}
	if err == nil {
		r.times = append(r.times, took)
		return
	}
	r.Failed++
	if len(r.causes) < maxCauses {
		r.causes[err.Error()]++
	}
}

// print writes the numbers.
func (r *report) print(w io.Writer, format string) error {
	slices.Sort(r.times)
	r.LatencyMS = latency{P50: r.percentile(50), P99: r.percentile(99), Max: r.percentile(100)}
	if r.took > 0 {
		r.SpawnsPerSecond = float64(len(r.times)) / r.took.Seconds()
	}
	if format == "json" {
		return json.NewEncoder(w).Encode(r)
	}
	t := command.NewTable()
	t.AppendRows([]table.Row{
		{"spawns and deletes", r.Spawns},
		{"failed", r.Failed},
		{"leaks", r.Leaks},
		{"spawns and deletes a second", fmt.Sprintf("%.0f", r.SpawnsPerSecond)},
		{"spawn, median", fmt.Sprintf("%.2f ms", r.LatencyMS.P50)},
		{"spawn, 99 of 100", fmt.Sprintf("%.2f ms", r.LatencyMS.P99)},
		{"spawn, slowest", fmt.Sprintf("%.2f ms", r.LatencyMS.Max)},
	})
	_, err := fmt.Fprintln(w, t.Render())
	for _, leak := range r.leaks {
		if err == nil {
			_, err = fmt.Fprintln(w, leak)
		}
	}
	return err
}

// percentile is the least latency, in milliseconds, that so many of 100 spawns do not exceed;
// 0 without any.
func (r *report) percentile(of100 int) float64 {
	if len(r.times) == 0 {
		return 0
	}
	rank := (len(r.times)*of100 + 99) / 100
	return float64(r.times[max(rank, 1)-1].Microseconds()) / 1000
}

// failure is the error of a load with leaks or failed spawns.
func (r *report) failure() error {
	if r.Leaks > 0 {
		return command.Leaked(plural.Count(r.Leaks, "leak"))
	}
	for cause := range r.causes {
		return fmt.Errorf("spawns failed: %d of %d, such as: %s", r.Failed, r.Spawns, cause)
	}
	return nil
}
