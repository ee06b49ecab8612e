package spawn_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// The global request ID connects the log lines of an instance in all services. It is the only field that connects the
// request for candidates with the instance.
func TestTheRequestsOfAnInstanceHaveItsGlobalRequestID(t *testing.T) {
	t.Parallel()
	const given = "req-0fbb94ac-6b4e-4d7f-8d0c-2c6b5e6f9a11"
	for name, tt := range map[string]struct{ given, want string }{
		"by default":                      {"", "req-" + instance},
		"of the caller":                   {given, given},
		"in a form that no service takes": {"req-me", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{})
			ctx := t.Context()
			if tt.given != "" {
				ctx = cyborgclient.WithGlobalRequestID(ctx, tt.given)
			}
			w.cloud.ForgetRequests()
			if _, err := w.flow.Run(ctx, request("gpu")); err != nil {
				t.Fatal(err)
			}
			if err := w.flow.Release(ctx, instance); err != nil {
				t.Fatal(err)
			}
			var seen []string
			for _, r := range w.cloud.Requests() {
				if r.Internal || r.Service == "identity" || r.Operation == "placement.root.get" || r.Operation == "accelerator.root.get" {
					continue
				}
				seen = append(seen, string(r.Operation))
				if r.GlobalRequestID != tt.want {
					t.Errorf("%s %s: global request ID %q, want %q", r.Method, r.Path, r.GlobalRequestID, tt.want)
				}
			}
			for _, operation := range []string{"placement.allocation_candidates.list", "placement.allocations.put", "accelerator.arq.create", "accelerator.arq.bind", "accelerator.arq.delete"} {
				if !slices.Contains(seen, operation) {
					t.Errorf("no %s among %v", operation, seen)
				}
			}
		})
	}
}

// The status page separates concurrent spawns, each from its candidates to its release.
func TestThePageGroupsTheRequestsOfAnInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	others := []string{instance}
	for _, n := range []string{"7", "8"} {
		others = append(others, strings.TrimSuffix(instance, instance[len(instance)-1:])+n)
	}
	w.cloud.ForgetRequests()
	done := make(chan error)
	for _, id := range others {
		go func() {
			req := request("gpu")
			req.Instance = id
			_, err := w.flow.Run(t.Context(), req)
			done <- err
		}()
	}
	for range others {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flow.Release(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	w.cloud.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_sim/?part=flows&flows="+instance, nil))
	page := answer.Body.String()
	for _, want := range []string{"Instance <code>" + instance + "</code>", "GET /allocation_candidates", "PUT /allocations/", "POST /accelerator_requests", "POST /os-server-external-events", "DELETE /accelerator_requests"} {
		if !strings.Contains(page, want) {
			t.Errorf("the story lacks %q", want)
		}
	}
	if n := strings.Count(page, "GET /allocation_candidates: 200"); n != 1 {
		t.Errorf("%d queries for candidates in the story of one instance", n)
	}
	for _, id := range others[1:] {
		if strings.Contains(page, id) {
			t.Errorf("the story names instance %s", id)
		}
	}
}
