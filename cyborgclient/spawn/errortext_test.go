package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// checkText checks that an error is one line that names the package and the instance once, and every host that was
// tried.
func checkText(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	for _, once := range []string{instance, "spawn: ", "\n"} {
		if n := strings.Count(text, once); n > 1 || n == 1 && once == "\n" {
			t.Errorf("%q stands %d times in %s", once, n, text)
		}
	}
	failure := failureOf(t, err)
	for _, host := range failure.Hosts {
		if len(failure.Hosts) > 1 && !strings.Contains(text, host.Host) {
			t.Errorf("host %s is not named in %s", host.Host, text)
		}
	}
	for _, url := range []string{"http://", "?limit="} {
		if strings.Contains(text, url) {
			t.Errorf("a URL is in %s", text)
		}
	}
}

func TestLeftoverTexts(t *testing.T) {
	t.Parallel()
	certain := spawn.Leftover{Kind: spawn.LeftoverARQ, ID: "a1", Certain: true}
	failed := certain
	failed.Err = errors.New("Cyborg is down")
	create := spawn.Leftover{Kind: spawn.LeftoverCreate, ID: "gpu", Count: 2, ProjectID: "p1", Since: time.Unix(0, 0)}
	for want, leftover := range map[string]spawn.Leftover{
		"arq a1":                  certain,
		"arq a1 (Cyborg is down)": failed,
		"arq a1 (not certain)":    {Kind: spawn.LeftoverARQ, ID: "a1"},
		"up to 2 ARQs of device profile gpu (project p1, created after 1970-01-01T00:00:00Z)": create,
	} {
		if got := leftover.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	err := &spawn.Error{Instance: instance, Step: spawn.StepUnwind, Err: errors.New("no"), Leftovers: []spawn.Leftover{failed, certain}}
	if got := err.Error(); !strings.Contains(got, "arq a1 (Cyborg is down), arq a1") || strings.Contains(got, "()") {
		t.Errorf("got %q", got)
	}
}

// TestErrorTexts fails each request of a spawn, of its unwinding and of a release.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	kinds := []fault.Rule{
		{Action: fault.Status, Status: 403, Times: -1}, {Action: fault.Status, Status: 409, Times: -1},
		{Action: fault.Status, Status: 500, Times: -1}, {Action: fault.Malformed, Times: -1},
	}
	for _, operation := range []sim.OperationName{
		fault.DeviceProfileList, fault.AllocationCandidatesList, fault.ResourceProviderGet,
		fault.AllocationsGet, fault.AllocationsPut, fault.ARQCreate, fault.ARQBind,
		fault.ARQList, fault.ARQDelete, fault.AllocationsDelete,
	} {
		for _, rule := range kinds {
			rule.Operation = operation
			bubble(t, killName(rule), func(t *testing.T) {
				w := newWorld(t, worldOpts{model: raceModel(2, 1), poll: true})
				rules := []fault.Rule{rule}
				if strings.HasSuffix(string(operation), ".delete") { // is sent after a failure only
					rules = append(rules, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 404, Times: -1})
				}
				w.fail(t, rules...)
				_, err := w.flow.Run(t.Context(), request("gpu"))
				checkText(t, err)
				checkText(t, w.flow.Release(t.Context(), instance))
			})
		}
	}
}

func TestErrorTextsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/device_profiles", "/allocation_candidates", "/resource_providers", "/allocations/", "/accelerator_requests"} {
		bubble(t, path, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: raceModel(2, 1)})
			w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					if strings.Contains(req.URL.Path, path) {
						return nil, io.ErrUnexpectedEOF
					}
					return next.RoundTrip(req)
				})
			})
			_, err := w.flow.Run(t.Context(), request("gpu"))
			if err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
				t.Errorf("got error %v, want the cause", err)
			}
			checkText(t, err)
			checkText(t, w.flow.Release(t.Context(), instance))
		})
	}
}

func TestErrorTextsOfTheWait(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"timeout": time.Hour, "failed": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: slowModel(delay)})
			if name == "failed" {
				w.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status})
			}
			_, err := w.flow.Run(t.Context(), request("mixed"))
			checkText(t, err)
			var notBound *spawn.NotBoundError
			if !errors.As(err, &notBound) {
				t.Fatalf("%s: got error %v", name, err)
			}
			for _, arq := range notBound.ARQs {
				if n := strings.Count(err.Error(), arq.UUID); n != 1 {
					t.Errorf("%s: ARQ %s stands %d times in %v", name, arq.UUID, n, err)
				}
			}
		})
	}
}

func TestErrorTextsOfOperations(t *testing.T) {
	t.Parallel()
	for _, operation := range []sim.OperationName{fault.ARQList, fault.ARQDelete, fault.AllocationsDelete, "guest"} {
		bubble(t, string(operation), func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "mixed")
			if operation == "guest" {
				s.guests.fail["start"] = 1 << 30
			} else {
				s.fail(t, fault.Rule{Operation: operation, Action: fault.Status, Status: 403, Times: -1})
			}
			checkText(t, s.ops.HardReboot(t.Context(), i, nil))
			checkText(t, s.ops.Delete(t.Context(), i))
			checkText(t, s.ops.Start(t.Context(), i)) // there is no guest
			_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
			checkText(t, err)
		})
	}
}

func TestErrorTextsOfBadRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	for _, id := range []string{"", "x", strings.ToUpper(instance)} {
		req := request("gpu")
		req.Instance = id
		_, err := w.flow.Run(t.Context(), req)
		want := fmt.Sprintf("spawn: profile: bad spawn request: instance %q is not a lower-case UUID with dashes", id)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestTheTextsOfErrors checks the optional parts of an error's text.
func TestTheTextsOfErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom on cn0")
	conflict := &spawn.OwnerConflictError{Address: "0000:3b:00.0", Owners: [2]string{"Nova", "ARQ x"}}
	refused := *conflict
	refused.Err = boom
	full := errors.New("full")
	tried := func(hosts ...any) *spawn.Error {
		failure := &spawn.Error{Step: spawn.StepBind, Err: boom}
		for pair := range slices.Chunk(hosts, 2) {
			err, _ := pair[1].(error)
			failure.Hosts = append(failure.Hosts, spawn.TriedHost{Host: fmt.Sprint(pair[0]), Step: spawn.StepClaim, Err: err})
		}
		return failure
	}
	for want, err := range map[string]error{
		"spawn: claim: boom on cn0":                                         &spawn.Error{Step: spawn.StepClaim, Err: boom, Hosts: []spawn.TriedHost{{Host: "cn1"}}},
		"spawn: instance " + instance + ": claim: boom on cn0":              &spawn.Error{Instance: instance, Step: spawn.StepClaim, Err: boom},
		"spawn: delete of instance " + instance + ": boom on cn0":           &spawn.Error{Instance: instance, Operation: spawn.OpDelete, Err: boom},
		"spawn: bind: boom on cn0; hosts tried: cn1 (claim: full)":          tried("cn1", full, "cn0", boom),
		"spawn: bind: boom on cn0; hosts tried: cn1":                        tried("cn1", boom, "cn0", boom),
		"spawn: bind: boom on cn0; hosts tried: cn (claim: full), cn1":      tried("cn", full, "cn1", boom),
		"spawn: bind: boom on cn0; hosts tried: cn1, cn2 (claim: full)":     tried("cn1", full, "cn2", full, "cn0", boom),
		"spawn: bind: boom on cn0":                                          tried("cn0", boom),
		"no allocation candidates: no host has room for flavor VCPU:1":      &spawn.NoCandidatesError{Groups: "flavor VCPU:1"},
		"device with two owners: 0000:3b:00.0 belongs to Nova and to ARQ x": conflict,
		conflict.Error() + ": boom on cn0":                                  &refused,
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}

// An error with many hosts and long reasons is truncated, and says so.
func TestTheTextOfManyHostsIsBounded(t *testing.T) {
	t.Parallel()
	failure := &spawn.Error{Step: spawn.StepBind, Err: errors.New("boom")}
	for n := range 100 {
		failure.Hosts = append(failure.Hosts, spawn.TriedHost{
			Host: fmt.Sprintf("cn%d", n), Step: spawn.StepHost, Err: errors.New(fmt.Sprint(n) + strings.Repeat("ä", 10_000)),
		})
	}
	text := failure.Error()
	if len(text) > 4000 || !utf8.ValidString(text) || !strings.Contains(text, "92 other hosts, cn92 (host: 92ä") {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}

// The error and its text name each host once with what failed there, for every step.
func TestAnErrorHasTheReasonOfEachHost(t *testing.T) {
	t.Parallel()
	reasons := []string{"NUMA does not fit", "the disk is full"}
	for name, tt := range map[string]struct {
		rules []fault.Rule
		set   func(w *world, req *spawn.Request, fail func() error)
		steps []spawn.Step
		want  []string
	}{
		"claims of the hosts": {nil, func(_ *world, req *spawn.Request, fail func() error) {
			req.Hooks.Claim = func(context.Context, *spawn.Attempt) error { return fail() }
		}, []spawn.Step{spawn.StepHost, spawn.StepHost}, reasons},
		"guests": {nil, func(w *world, _ *spawn.Request, fail func() error) {
			w.flow = w.flow.On(&guestFuncs{start: func(context.Context, sim.Guest) error { return fail() }})
		}, []spawn.Step{spawn.StepStart, spawn.StepStart}, reasons},
		"a create and a bind": {[]fault.Rule{
			{Operation: fault.ARQCreate, Action: fault.Status, Status: 503},
			{Operation: fault.ARQBind, Action: fault.Status, Status: 500},
		}, nil, []spawn.Step{spawn.StepCreate, spawn.StepBind}, []string{"create: cyborgclient: accelerator.arq.create gpu: 503", "500 Internal"}},
		"a bind and a claim": {[]fault.Rule{
			{Operation: fault.ARQBind, Action: fault.Status, Status: 500},
			{Operation: fault.AllocationsPut, Nth: 2, Action: fault.Status, Status: 409},
		}, nil, []spawn.Step{spawn.StepBind, spawn.StepClaim}, []string{"bind: cyborgclient: accelerator.arq.bind", "claim refused on"}},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: raceModel(2, 1), poll: true})
			w.fail(t, tt.rules...)
			req, n := request("gpu"), 0
			if tt.set != nil {
				tt.set(w, &req, func() error { n++; return errors.New(reasons[n-1]) })
			}
			_, err := w.flow.Run(t.Context(), req)
			checkText(t, err)
			hosts := failureOf(t, err).Hosts
			if len(hosts) != 2 {
				t.Fatalf("got %v, want an error of two hosts", err)
			}
			for i, h := range hosts {
				if h.Step != tt.steps[i] || h.Err == nil || strings.Count(err.Error(), h.Host) != 1 || strings.Count(err.Error(), tt.want[i]) != 1 {
					t.Errorf("host %s: step %s, %v, in %v", h.Host, h.Step, h.Err, err)
				}
			}
			w.cloud.CheckNoLeaks(t)
		})
	}
}
