package importer

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	for _, tt := range []struct {
		status int
		body   string
		tries  int
	}{
		{503, "", 3},
		{429, "", 3},
		{500, "", 1},
		{404, "default backend - 404", 3}, // an ingress without a backend
		{404, `{"error_message": "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n</html>"}`, 1}, // Cyborg has no such collection
		{404, `{"errors": [{"status": 404, "detail": "No resource provider with uuid 1 found"}]}`, 1},       // Placement
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked < 3 {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
				return
			}
			_, _ = w.Write([]byte(`{"traits":[]}`))
		}))
		r := &reader{pause: time.Microsecond}
		service := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/"}
		answer, err := r.get(t.Context(), service, "traits")
		if asked != tt.tries || (err == nil) != (tt.tries == 3) || err == nil && string(answer["traits"]) != "[]" {
			t.Errorf("%d %s: asked %d times, want %d: %s, %v", tt.status, tt.body, asked, tt.tries, answer, err)
		}
		server.Close()
	}
}

func TestARedirectCarriesNoPasswordToAnotherHost(t *testing.T) {
	var stolen []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = append(stolen, r.URL.Path) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(t.TempDir(), "none.yaml"))
	t.Setenv("OS_CLOUD", "")
	for name, value := range map[string]string{"OS_AUTH_URL": server.URL, "OS_USERNAME": "u", "OS_PASSWORD": "secret", "OS_DOMAIN_NAME": "d"} {
		t.Setenv(name, value)
	}
	if _, err := openCloud(t.Context(), "", slog.New(slog.DiscardHandler)); err == nil || len(stolen) > 0 {
		t.Errorf("%v; the other host was sent %q", err, stolen)
	}
}
