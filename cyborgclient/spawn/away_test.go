package spawn_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The token expires during the wait for the ARQs, and Keystone is unavailable for a moment.
func TestAKeystoneOutageDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	expired := fault.Rule{Operation: fault.ARQList, Action: fault.ExpireToken}
	for name, keystone := range map[string]fault.Rule{
		"it answers 503":     {Operation: fault.TokenCreate, Action: fault.Proxy, Status: 503},
		"it does not answer": {Operation: fault.TokenCreate, Action: fault.Drop},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			a := w.arqsFor(t, request("gpu"))
			w.fail(t, expired, keystone)
			settled(t, a.WaitBound(t.Context()))
			unwindAll(t, a)
		})
	}
}

// silent is a proxy that holds requests to a path for a day, or until their context ends.
type silent struct {
	next http.RoundTripper
	path string
}

// RoundTrip implements http.RoundTripper.
func (s silent) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == s.path {
		select {
		case <-req.Context().Done():
			return nil, req.Context().Err()
		case <-time.After(24 * time.Hour):
		}
	}
	return s.next.RoundTrip(req)
}

// gophercloud discovers the versions of a service in a request without a context.
func TestNoServiceIsAskedForItsVersions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		provider := simcloud.Run(t).Provider(t)
		provider.HTTPClient.Transport = silent{provider.HTTPClient.Transport, "/placement/"}
		start := time.Now()
		_, err := spawn.NewFromProvider(provider)
		settled(t, err)
		if took := time.Since(start); took > 0 {
			t.Errorf("a flow was made in %s", took)
		}
	})
}

func TestProgramEndsWithItsContextWhileTheImageServiceIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: programModel()})
		i := s.spawn(t, "fpga")
		for _, path := range []string{"/image/", "/image/v2/images"} {
			provider := s.cloud.Provider(t)
			provider.HTTPClient.Transport = silent{provider.HTTPClient.Transport, path}
			s.connect(t, provider)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			start := time.Now()
			_, err := s.flow.Program(ctx, spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionID: cryptoID})
			cancel()
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("%s: Program with a context of 10 s took %s: %v", path, took, err)
			}
		}
	})
}
