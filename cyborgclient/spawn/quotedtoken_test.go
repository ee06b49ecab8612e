package spawn_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// quoting is a proxy that answers requests to a path with their token. It records the last token.
type quoting struct {
	next http.RoundTripper
	path string
	body string
	last *string
}

// RoundTrip implements http.RoundTripper.
func (q quoting) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, q.path) {
		return q.next.RoundTrip(req)
	}
	*q.last = req.Header.Get("X-Auth-Token")
	return answer(req, http.StatusForbidden, fmt.Sprintf(q.body, *q.last)), nil
}

// checkQuoted checks that an error quotes the response, but not the token in it.
func checkQuoted(t *testing.T, path, token string, err error) {
	t.Helper()
	var answered gophercloud.ErrUnexpectedResponseCode
	if token == "" || !errors.As(err, &answered) {
		t.Fatalf("%s: token %q, %v; want the answer", path, token, err)
	}
	for _, text := range []string{err.Error(), answered.Error(), string(answered.Body)} {
		if strings.Contains(text, token) {
			t.Errorf("%s: the token is in %s", path, text)
		}
	}
}

func TestAQuotedTokenIsRedacted(t *testing.T) {
	t.Parallel()
	s := newSite(t, worldOpts{model: programModel()})
	i := s.spawn(t, "fpga")
	program := func() error {
		_, err := s.flow.Program(t.Context(), spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionName: "gzip"})
		return err
	}
	run := func() error {
		_, err := s.flow.Run(t.Context(), secondInstanceRequest("fpga"))
		return err
	}
	const placementBody = `{"errors": [{"status": 403, "detail": "X-Auth-Token: %s"}]}`
	for _, test := range []struct {
		path, body string
		call       func() error
	}{
		{"/allocation_candidates", placementBody, run},
		{"/allocation_candidates", "X-Auth-Token: %s", run},
		{"/allocations/" + secondInstance, placementBody, run},
		{"/images", "X-Auth-Token: %s", program},
	} {
		var token string
		s.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return quoting{next, test.path, test.body, &token}
		})
		err := test.call()
		checkQuoted(t, test.path, token, err)
	}
}
