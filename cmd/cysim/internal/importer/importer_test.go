package importer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

func TestOnlyReadsAndLoginsAreSent(t *testing.T) {
	t.Parallel()
	sent := 0
	way := readOnly{roundTrip(func(r *http.Request) (*http.Response, error) { sent++; return nil, context.Canceled })}
	for method, path := range map[string]string{"PUT": "/allocations/x", "DELETE": "/v2/accelerator_requests", "PATCH": "/x", "POST": "/v2/devices/x/disable", "HEAD": "/x"} {
		req := httptest.NewRequest(method, "http://cloud"+path, nil)
		if _, err := way.RoundTrip(req); err == nil || sent != 0 {
			t.Errorf("%s %s was sent (%v)", method, path, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestABusyPlacementIsAskedAgain(t *testing.T) {
	t.Parallel()
	for status, tries := range map[int]int{503: 3, 429: 3, 500: 1, 404: 1} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked < 3 {
				w.WriteHeader(status)
				return
			}
			_, _ = w.Write([]byte(`{"versions":[{"id":"v1.0","max_version":"1.39","min_version":"1.0"}]}`))
		}))
		provider := &gophercloud.ProviderClient{}
		r := &placementReader{service: &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: server.URL + "/"}, pause: time.Microsecond}
		minor, err := r.negotiate(t.Context())
		if asked != tries || (err == nil) != (tries == 3) || err == nil && minor != 39 {
			t.Errorf("%d: asked %d times, want %d: %d, %v", status, asked, tries, minor, err)
		}
		server.Close()
	}
}

func TestOnlyKnownVersionsOfPlacementAreRead(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"versions":[{"id":"v1.0","max_version":"1.60","min_version":"1.0"}]}`:  "",
		`{"versions":[{"id":"v1.0","max_version":"1.60","min_version":"1.50"}]}`: "lowest microversion is 1.50",
		`{"versions":[{"id":"v2.0","max_version":"2.3","min_version":"2.0"}]}`:   "is that a Placement?",
		`{"versions":[]}`: "is that a Placement?",
		`[]`:              "json",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		r := &placementReader{service: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/"}}
		minor, err := r.negotiate(t.Context())
		if want == "" && (err != nil || minor != placementHighest) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d, %v, want %q", body, minor, err, want)
		}
		server.Close()
	}
}

func TestARedirectCarriesNoTokenToAnotherHost(t *testing.T) {
	t.Parallel()
	var stolen []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = append(stolen, r.Header.Get("X-Auth-Token")) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	provider := &gophercloud.ProviderClient{TokenID: "secret", HTTPClient: http.Client{Transport: readOnly{http.DefaultTransport}, CheckRedirect: sameHost}}
	r := &placementReader{service: &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: server.URL + "/"}}
	if err := r.get(t.Context(), "/traits", nil); !gophercloud.ResponseCodeIs(err, http.StatusTemporaryRedirect) || len(stolen) > 0 {
		t.Errorf("%v; the other host was sent %q", err, stolen)
	}
}
