package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/internal/session"
)

// Step is one of the ten steps of the flow, a hook, or the unwinding.
type Step int

// The steps in order.
const (
	StepProfile    Step = iota + 1 // read the device profile that the flavor names
	StepRequest                    // flavor and profile become request groups
	StepCandidates                 // ask Placement for allocation candidates
	StepSelect                     // choose a host
	StepClaim                      // claim the allocation
	StepCreate                     // create the ARQs
	StepMatch                      // match each ARQ with the provider of its group
	StepBind                       // bind all ARQs
	StepWait                       // wait until every ARQ is Bound
	StepCompose                    // put the devices into the domain XML
	StepUnwind                     // release everything
	StepHost                       // the compute host's own claim, see Hooks
	StepPrepare                    // networks and block devices, see Hooks
	StepStart                      // define and start the guest, see Hypervisor
)

// String returns the step's short name: "profile", "claim", and so on.
func (s Step) String() string {
	names := [...]string{"profile", "request", "candidates", "select", "claim", "create", "match", "bind", "wait", "compose", "unwind",
		"host", "prepare", "start"}
	if s < StepProfile || int(s) > len(names) {
		return fmt.Sprintf("step %d", int(s))
	}
	return names[s-1]
}

// MarshalText writes the short name.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// StepTrace is the record of one step.
type StepTrace struct {
	Step     Step           `json:"step"`
	Started  time.Time      `json:"started"`
	Duration time.Duration  `json:"duration_ns"`
	Requests []RequestTrace `json:"requests,omitempty"`
	// Decision is the result in a few words.
	Decision string `json:"decision,omitempty"`
	// Error is the text of the error that ended the step.
	Error string `json:"error,omitempty"`
}

// RequestTrace is the record of one call to a service, retries included.
type RequestTrace struct {
	Service  string        `json:"service"` // "placement" or "accelerator"
	Name     string        `json:"name"`    // the operation, such as "PUT allocations"
	Status   int           `json:"status"`  // 0: no response
	Duration time.Duration `json:"duration_ns"`
}

// recorder records the steps of one attempt, and notifies the observers of the flow.
type recorder struct {
	observers []func(context.Context, Progress)
	instance  string
	host      string
	tried     []TriedHost // the hosts that were chosen, each once
	undone    int         // number of the journal's removals that were reported
	left      []Leftover  // reported leftovers

	mu    sync.Mutex // a hook may send requests from several goroutines
	steps []*StepTrace
}

func (f *Flow) newRecorder(instance, host string) *recorder {
	return &recorder{observers: f.observers, instance: instance, host: host}
}

// choose records that a host is tried, possibly again.
func (r *recorder) choose(host string) {
	r.host = host
	r.tried = append(slices.DeleteFunc(slices.Clone(r.tried), func(t TriedHost) bool { return t.Host == host }), TriedHost{Host: host})
}

// failed records the failure on the last chosen host, unless it is the same failure again, or the error says that
// there is no other host.
func (r *recorder) failed(step Step, err error) {
	if len(r.tried) == 0 {
		return
	}
	last := &r.tried[len(r.tried)-1]
	if last.Err == nil || step != StepSelect && !errors.Is(err, last.Err) {
		last.Step, last.Err = step, err
	}
}

// stepKey is the key of the function that reports the progress of the step to which the requests with a context
// belong.
type stepKey struct{}

// open starts a step. Call end with the decision or the error. Requests with the returned context belong to the step.
func (r *recorder) open(ctx context.Context, step Step) (opened context.Context, end func(decision string, err error)) {
	s := &StepTrace{Step: step, Started: time.Now()}
	r.mu.Lock()
	r.steps = append(r.steps, s)
	r.mu.Unlock()
	ctx = r.record(ctx, s)
	r.report(ctx, Progress{Step: step, Event: ProgressBegin})
	return ctx, func(decision string, err error) {
		r.mu.Lock()
		s.Duration, s.Decision = time.Since(s.Started), decision
		if err != nil {
			s.Error = err.Error()
		}
		r.mu.Unlock()
		r.report(ctx, Progress{Step: step, Event: ProgressEnd, Text: decision, Duration: s.Duration, Err: err})
	}
}

// step runs a step and records it. If the context has ended, the step is not run.
func (r *recorder) step(ctx context.Context, name Step, work func(context.Context) (decision string, err error)) error {
	ctx, end := r.open(ctx, name)
	if err := ctx.Err(); err != nil {
		end("", err)
		return err
	}
	decision, err := work(ctx)
	if err != nil {
		r.failed(name, err)
	}
	end(decision, err)
	return err
}

// reopen returns a context whose requests belong to the last step.
func (r *recorder) reopen(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record(ctx, r.steps[len(r.steps)-1])
}

// trace returns a copy of the record so far.
func (r *recorder) trace() []StepTrace {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := make([]StepTrace, len(r.steps))
	for i, s := range r.steps {
		steps[i] = *s
		steps[i].Requests = slices.Clip(s.Requests)
	}
	return steps
}

// record returns a context whose requests to Cyborg and Placement belong to a step.
func (r *recorder) record(ctx context.Context, s *StepTrace) context.Context {
	add := func(service, name string, status int, took time.Duration) {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.Requests = append(s.Requests, RequestTrace{Service: service, Name: name, Status: status, Duration: took})
	}
	ctx = context.WithValue(ctx, stepKey{}, func(ctx context.Context, p Progress) {
		p.Step = s.Step
		r.report(ctx, p)
	})
	ctx = withRequestID(ctx, r.instance)
	ctx = placement.Observe(ctx, func(c placement.Call) { add("placement", c.Operation, c.Status, c.Duration) })
	return cyborgclient.Observe(ctx, func(c cyborgclient.Call) { add("accelerator", c.Operation, c.Status, c.Duration) })
}

// withRequestID returns a context whose requests have a global request ID derived from the instance, unless ctx
// already has one.
func withRequestID(ctx context.Context, instance string) context.Context {
	if session.RequestID(ctx) != "" {
		return ctx
	}
	return session.WithRequestID(ctx, "req-"+strings.ToLower(instance))
}

// count returns a number with its noun: "1 ARQ", "2 ARQs".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
