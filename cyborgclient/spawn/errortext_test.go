package spawn_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// checkText wants an error on one line that names the package and the instance once, and
// every host that was tried.
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
	var failure *spawn.Error
	if !errors.As(err, &failure) {
		t.Fatalf("%T: %s", err, text)
	}
	for _, host := range failure.Hosts {
		if len(failure.Hosts) > 1 && !strings.Contains(text, host) {
			t.Errorf("host %s is not named in %s", host, text)
		}
	}
	for _, url := range []string{"http://", "?limit="} {
		if strings.Contains(text, url) {
			t.Errorf("a URL stands in %s", text)
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

// TestErrorTexts lets each request of a spawn, of its unwinding and of a release fail.
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
			t.Run(killName(rule), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
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
			})
		}
	}
}

// cut is a transport whose requests of one path get no answer.
type cut struct {
	next http.RoundTripper
	path string
}

// RoundTrip implements http.RoundTripper.
func (c cut) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.Path, c.path) {
		return nil, io.ErrUnexpectedEOF
	}
	return c.next.RoundTrip(req)
}

func TestErrorTextsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/device_profiles", "/allocation_candidates", "/resource_providers", "/allocations/", "/accelerator_requests"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOpts{model: raceModel(2, 1)})
				w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper { return cut{next, path} })
				_, err := w.flow.Run(t.Context(), request("gpu"))
				if err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
					t.Errorf("got error %v, want the cause", err)
				}
				checkText(t, err)
				checkText(t, w.flow.Release(t.Context(), instance))
			})
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
		t.Run(string(operation), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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

// TestTheTextsOfErrors has what the text of an error says only sometimes.
func TestTheTextsOfErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom on cn0")
	conflict := &spawn.OwnerConflictError{Address: "0000:3b:00.0", Owners: [2]string{"Nova", "ARQ x"}}
	refused := *conflict
	refused.Err = boom
	for want, err := range map[string]error{
		"spawn: claim: boom on cn0":                                         &spawn.Error{Step: spawn.StepClaim, Err: boom, Hosts: []string{"cn1"}},
		"spawn: instance " + instance + ": claim: boom on cn0":              &spawn.Error{Instance: instance, Step: spawn.StepClaim, Err: boom},
		"spawn: delete of instance " + instance + ": boom on cn0":           &spawn.Error{Instance: instance, Operation: spawn.OpDelete, Err: boom},
		"spawn: bind: boom on cn0; hosts tried: cn0, cn1":                   &spawn.Error{Step: spawn.StepBind, Err: boom, Hosts: []string{"cn0", "cn1"}},
		"spawn: bind: boom on cn0":                                          &spawn.Error{Step: spawn.StepBind, Err: boom, Hosts: []string{"cn0", "cn0"}},
		"no allocation candidates: no host has room for flavor VCPU:1":      &spawn.NoCandidatesError{Groups: "flavor VCPU:1"},
		"device with two owners: 0000:3b:00.0 belongs to Nova and to ARQ x": conflict,
		conflict.Error() + ": boom on cn0":                                  &refused,
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}
