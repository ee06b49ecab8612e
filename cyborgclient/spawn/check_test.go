package spawn_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Check finds the calls that a token is not allowed to do, and changes nothing.
func TestACheckNamesTheCallsThatATokenMayNotDo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		release           fakecyborg.Release
		cyborg, placement string
		service           bool
		want              []string
	}{
		"an administrator":            {fakecyborg.Release20262, "admin", "nova", true, nil},
		"a member":                    {fakecyborg.Release20262, "demo", "nova", true, []string{"program deployables"}},
		"a member for both":           {fakecyborg.Release20262, "demo", "demo", true, []string{"read and write allocations", "program deployables"}},
		"without a service token":     {fakecyborg.Release20262, "admin", "nova", false, []string{"bind and unbind ARQs, and delete bound ones"}},
		"Zed without a service token": {fakecyborg.ReleaseZed, "demo", "nova", false, nil},
	} {
		bubble(t, name, func(t *testing.T) {
			model := simcloud.DefaultModel()
			model.Cyborg.Release = tt.release
			s := newSite(t, worldOpts{model: &model})
			opts := []spawn.Option{spawn.WithPlacementProvider(s.provider(t, tt.placement))}
			if tt.service {
				opts = append(opts, spawn.WithServiceProvider(s.cloud.ServiceProvider(t)))
			}
			flow, err := spawn.NewFromProvider(s.provider(t, tt.cyborg), opts...)
			settled(t, err)
			s.cloud.ForgetRequests()
			refusals, err := flow.Check(t.Context())
			settled(t, err)
			var calls []string
			for _, r := range refusals {
				calls = append(calls, r.Call)
				isService := errors.Is(r.Err, cyborgclient.ErrServiceToken)
				if isService != (r.Call == "bind and unbind ARQs, and delete bound ones") || r.Fails == "" {
					t.Errorf("%s", r)
				}
			}
			if diff := cmp.Diff(tt.want, calls); diff != "" {
				t.Errorf("refused calls (-want +got):\n%s", diff)
			}
			for _, r := range s.cloud.Requests() {
				if len(r.Changes) > 0 {
					t.Errorf("%s %s changed %v", r.Method, r.Path, r.Changes)
				}
			}
		})
	}
}

func TestACheckOfASilentServiceIsAnError(t *testing.T) {
	t.Parallel()
	for _, op := range []sim.OperationName{fault.ARQCreate, fault.AllocationsGet, fault.DeployableProgram} {
		bubble(t, string(op), func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.fail(t, fault.Rule{Operation: op, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
			if refusals, err := w.flow.Check(t.Context()); err == nil {
				t.Errorf("got %v and no error", refusals)
			}
		})
	}
}

// Check has no side effects on any release.
func TestACheckChangesNothingOnAnyRelease(t *testing.T) {
	t.Parallel()
	for _, column := range releaseColumns {
		bubble(t, column.name, func(t *testing.T) {
			model := releasedModel(column.releases[0])
			model.Cyborg.UpstreamQuirks = true
			s := newSite(t, worldOpts{model: model})
			for user, connect := range users() {
				connect(t, s)
				s.cloud.ForgetRequests()
				if _, err := s.flow.Check(t.Context()); err != nil {
					t.Errorf("%s: %v", user, err)
				}
				for _, r := range s.cloud.Requests() {
					if len(r.Changes) > 0 {
						t.Errorf("%s: %s %s changed %v", user, r.Method, r.Path, r.Changes)
					}
				}
			}
		})
	}
}

// A server that answers 404 to every request is not a Cyborg that allows every request.
func TestACheckOfAnotherServerIsAnError(t *testing.T) {
	t.Parallel()
	bubble(t, "an ingress", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if strings.Contains(req.URL.Path, "/accelerator/") {
					return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("default backend - 404")), Request: req}, nil
				}
				return next.RoundTrip(req)
			})
		})
		if refusals, err := w.flow.Check(t.Context()); err == nil {
			t.Errorf("got %v and no error", refusals)
		}
	})
}
