package simhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

func peerAt(url string, client *http.Client) *simhttp.Peer {
	token := func(context.Context) (string, error) { return "secret", nil }
	return &simhttp.Peer{Endpoint: sim.Endpoint{URL: url, Client: client, Token: token}}
}

func TestAPeerGetsNoTokenByARedirect(t *testing.T) {
	t.Parallel()
	stolen := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen += r.Header.Get("X-Auth-Token") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	for _, client := range []*http.Client{nil, {}} {
		got, err := peerAt(server.URL, client).Do(t.Context(), simhttp.PeerCall{Method: http.MethodPut, Path: "/x", Body: 1})
		if err != nil || got.Status != http.StatusTemporaryRedirect || stolen != "" {
			t.Errorf("status %d, %v; the other server got %q", got.Status, err, stolen)
		}
	}
}

func TestTheErrorOfABadURLHasNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://u:%zzhunter2@peer.example", "http://u:hunter2/@peer.example"} {
		_, err := peerAt(url, nil).Do(t.Context(), simhttp.PeerCall{Method: http.MethodGet, Path: "/x"})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "peer.example") {
			t.Errorf("err = %v", err)
		}
	}
}

func TestARefusalOfAPeerHasNoToken(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-sixteen-characters"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "cannot route "+r.Header.Get("X-Auth-Token"), http.StatusBadGateway)
	}))
	defer server.Close()
	peer := simhttp.Peer{Endpoint: sim.Endpoint{URL: server.URL, Token: func(context.Context) (string, error) { return token, nil }}}
	got, err := peer.Do(t.Context(), simhttp.PeerCall{Method: http.MethodGet, Path: "/x"})
	if text := string(got.Body); err != nil || !strings.Contains(text, "cannot route") || strings.Contains(text, token) {
		t.Errorf("%v, %s", err, text)
	}
}

// huge announces more than is read of a peer.
type huge struct{}

func (huge) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, ContentLength: httpbounds.AnswerLimit + 1, Body: io.NopCloser(strings.NewReader(" "))}, nil
}

func TestAHugeAnswerOfAPeerIsRefused(t *testing.T) {
	t.Parallel()
	_, err := peerAt("http://peer.example", &http.Client{Transport: huge{}}).Do(t.Context(), simhttp.PeerCall{Method: http.MethodGet, Path: "/x"})
	if !errors.Is(err, httpbounds.ErrTooLarge) {
		t.Errorf("err = %v", err)
	}
}
