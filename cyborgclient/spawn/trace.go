package spawn

import (
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// Trace is the record of one attempt.
type Trace struct {
	Steps []StepTrace `json:"steps"`
}

// StepTrace is one step as it went.
type StepTrace struct {
	Step     Step           `json:"step"`
	Started  time.Time      `json:"started"`
	Duration time.Duration  `json:"duration_ns"`
	Requests []RequestTrace `json:"requests,omitempty"`
	// Decision tells in a few words what came out.
	Decision string `json:"decision,omitempty"`
	// Error is the text of the error that ended the step.
	Error string `json:"error,omitempty"`
}

// RequestTrace is one call to a service, retries included.
type RequestTrace struct {
	Service  string        `json:"service"` // "placement" or "accelerator"
	Name     string        `json:"name"`    // the operation, such as "PUT allocations"
	Status   int           `json:"status"`  // 0: no answer
	Duration time.Duration `json:"duration_ns"`
}

// open starts a step; close it with the decision or the error.
func (t *Trace) open(step Step) *StepTrace {
	t.Steps = append(t.Steps, StepTrace{Step: step, Started: time.Now()})
	return &t.Steps[len(t.Steps)-1]
}

func (s *StepTrace) close(decision string, err error) {
	s.Duration, s.Decision = time.Since(s.Started), decision
	if err != nil {
		s.Error = err.Error()
	}
}

func (s *StepTrace) cyborg(call cyborgclient.Call) {
	s.Requests = append(s.Requests, RequestTrace{
		Service: "accelerator", Name: call.Operation, Status: call.Status, Duration: call.Duration,
	})
}

func (s *StepTrace) placement(name string, status int, started time.Time) {
	s.Requests = append(s.Requests, RequestTrace{Service: "placement", Name: name, Status: status, Duration: time.Since(started)})
}

// count is a number with its noun: "1 ARQ", "2 ARQs".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
