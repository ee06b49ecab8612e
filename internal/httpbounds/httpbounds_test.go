package httpbounds_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

func TestAnAnswerEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := strings.Repeat("x", len(r.URL.Query().Get("n")))
		if r.URL.Path == "/announced" {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		} else {
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	const limit = 10
	client := httpbounds.Client(*server.Client(), limit)
	for path, most := range map[string]int{"/": limit, "/announced": 0} {
		for _, n := range []int{0, limit - 1, limit, limit + 1, 3 * limit} {
			resp, err := client.Get(server.URL + path + "?n=" + strings.Repeat("x", n))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			want := n
			if n > limit {
				want = most
			}
			if tooLarge := n > limit; errors.Is(err, httpbounds.ErrTooLarge) != tooLarge || !tooLarge && err != nil || len(body) != want {
				t.Errorf("%s: %d of %d bytes read, want %d: %v", path, len(body), n, want, err)
			}
		}
	}
}

func TestOnlyRedirectsToTheSameServerAreFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		elsewhere = append(elsewhere, r.Header.Get("X-Auth-Token")+string(body))
	}))
	defer other.Close()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/port":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/host":
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
		case "/scheme":
			http.Redirect(w, r, strings.Replace(server.URL, "http:", "https:", 1), http.StatusPermanentRedirect)
		case "/method":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		case "/same":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	client := httpbounds.Client(*server.Client(), httpbounds.AnswerLimit) // connections that no other test closes
	for path, want := range map[string]int{"/port": 307, "/host": 307, "/scheme": 308, "/method": 302, "/loop": 307, "/same": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("password"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Auth-Token", "token")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
		}
	}
	if len(elsewhere) > 0 {
		t.Errorf("another server was sent %q", elsewhere)
	}
}

func TestSameServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"http://cloud", "http://CLOUD:80/x", true},
		{"https://cloud/a", "https://cloud:443/b", true},
		{"http://cloud", "https://cloud", false},
		{"http://cloud:1", "http://cloud:2", false},
		{"http://cloud", "http://cloud.example", false},
	}
	for _, test := range tests {
		a, err1 := url.Parse(test.a)
		b, err2 := url.Parse(test.b)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if got := httpbounds.SameServer(a, b); got != test.want || httpbounds.SameServer(b, a) != test.want {
			t.Errorf("%s and %s: %v", test.a, test.b, got)
		}
	}
}

func TestAnAnswerOfHTMLIsAnError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		kind   string
		want   bool
	}{
		{200, "text/html; charset=UTF-8", true}, {203, "TEXT/HTML", true}, {201, "application/xhtml+xml", true},
		{200, "application/json", false}, {200, "", false}, {204, "", false}, {502, "text/html", false}, {302, "text/html", false},
	} {
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: test.status, Header: http.Header{"Content-Type": {test.kind}}, Body: io.NopCloser(strings.NewReader("x"))}, nil
		})
		req := httptest.NewRequest(http.MethodGet, "http://cloud/x", nil)
		resp, err := httpbounds.Transport(base, 10).RoundTrip(req)
		if errors.Is(err, httpbounds.ErrPage) != test.want || (resp == nil) != test.want || test.want && !strings.Contains(err.Error(), " with HTML") {
			t.Errorf("%d, %q: %v", test.status, test.kind, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestWhatAStatusProves(t *testing.T) {
	t.Parallel()
	for status := 100; status < 600; status++ {
		again := status == 408 || status == 429 || status == 502 || status == 503 || status == 504
		if got := httpbounds.AskAgain(status); got != again {
			t.Errorf("AskAgain(%d) = %v", status, got)
		}
		refused := status >= 400 && status < 500 && status != 408
		if got := httpbounds.Refused(status); got != refused {
			t.Errorf("Refused(%d) = %v", status, got)
		}
	}
}
