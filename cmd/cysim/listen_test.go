package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServingOtherMachinesIsLogged(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address       string
		warns, refuse bool
	}{
		{"127.0.0.1:0", false, false},
		{"127.1.2.3:0", false, false},
		{"localhost:0", false, false},
		{"0.0.0.0:0", true, false},
		{":0", true, false},
		{"localhost.example.org:0", false, true}, // no such name
		{"127.0.0.1", false, true},
		{"127.0.0.1:http-ish", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			listener, err := listenFlags{Listen: tt.address}.open(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "it has secrets")
			if (err != nil) != tt.refuse {
				t.Fatalf("got error %v, want one: %v", err, tt.refuse)
			}
			if warned := strings.Contains(log.String(), "other machines can reach this address"); warned != tt.warns {
				t.Errorf("warned: %t, want %t: %s", warned, tt.warns, log.String())
			}
			if err != nil {
				return
			}
			defer listener.Close()
			if base := baseURL(listener, nil); !strings.HasPrefix(base, "http://127.") && !strings.HasPrefix(base, "http://[::1]:") {
				t.Errorf("base URL %s is not reachable from this machine", base)
			}
		})
	}
}

func TestTheControlRoutesAreGuarded(t *testing.T) {
	t.Parallel()
	const local, everywhere = "127.0.0.1:0", "0.0.0.0:0"
	header := func(pairs ...string) map[string]string {
		h := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = pairs[i+1]
		}
		return h
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:open"))
	tests := []struct {
		name, listen, token, method, host, path string
		header                                  map[string]string
		want                                    int
	}{
		{"this machine", local, "", "GET", "127.0.0.1:80", "/_sim/leaks", nil, 200},
		{"this machine by name", local, "", "GET", "localhost", "/_sim/", nil, 200},
		{"this machine by the newer address", local, "", "PUT", "[::1]:80", "/_sim/faults", nil, 200},
		{"a name that leads here", local, "", "GET", "evil.example:80", "/_sim/leaks", nil, 403},
		{"a name that leads here, the cloud itself", local, "", "GET", "evil.example", "/placement/", nil, 403},
		{"a name that leads here, the login", local, "open", "POST", "evil.example", "/v3/auth/tokens", nil, 403},
		{"the cloud itself", local, "", "POST", "localhost:80", "/v3/auth/tokens", nil, 200},
		{"the cloud itself, for another site", local, "", "POST", "localhost:80", "/v3/auth/tokens", header("Origin", "http://evil.example"), 403},
		{"the cloud itself, for its own site", local, "", "POST", "localhost:80", "/v3/auth/tokens", header("Origin", "http://localhost:80"), 200},
		{"a stream of another site", local, "", "GET", "127.0.0.1:80", "/_sim/stream", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"), 403},
		{"a stream of another port", local, "", "GET", "127.0.0.1:80", "/_sim/stream", header("Sec-Fetch-Site", "same-site"), 403},
		{"a link from another site", local, "", "GET", "127.0.0.1:80", "/_sim/", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 200},
		{"a browser for another site", local, "", "POST", "127.0.0.1:80", "/_sim/report", header("Sec-Fetch-Site", "cross-site"), 403},
		{"a browser for its own page", local, "", "GET", "127.0.0.1:80", "/_sim/stream", header("Sec-Fetch-Site", "same-origin"), 200},
		{"another machine", everywhere, "", "GET", "192.0.2.1", "/_sim/leaks", nil, 403},
		{"another machine, the cloud itself", everywhere, "", "GET", "192.0.2.1", "/_simple", nil, 200},
		{"another machine, without the token", everywhere, "open", "GET", "192.0.2.1", "/_sim/leaks", nil, 401},
		{"another machine, a wrong token", everywhere, "open", "GET", "192.0.2.1", "/_sim/leaks", header("X-Control-Token", "opens"), 401},
		{"another machine, the token", everywhere, "open", "GET", "sim.example", "/_sim/leaks", header("X-Control-Token", "open"), 200},
		{"another machine, the password", everywhere, "open", "GET", "sim.example", "/_sim", header("Authorization", basic), 200},
		{"this machine, without the token", local, "open", "GET", "127.0.0.1", "/_sim/leaks", nil, 401},
		{"the token from another site", local, "open", "POST", "127.0.0.1", "/_sim/report", header("Authorization", basic, "Origin", "http://evil.example"), 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			guarded := listenFlags{Listen: tt.listen, ControlToken: tt.token}.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
			r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)
			r.Host = tt.host
			for name, value := range tt.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			guarded.ServeHTTP(w, r)
			if w.Code != tt.want || tt.token != "" && strings.Contains(w.Body.String(), tt.token+" ") {
				t.Errorf("%d %s, want %d", w.Code, w.Body.String(), tt.want)
			}
		})
	}
}

// The answer to a name of another machine says what to change, and each way leads to another answer.
func TestARefusedNameSuggestsTheRemedy(t *testing.T) {
	t.Parallel()
	const named = "sim.example:8780"
	ask := func(f listenFlags, host, path string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Host = host
		r.Header.Set(controlTokenHeader, f.ControlToken)
		w := httptest.NewRecorder()
		f.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	local := listenFlags{Listen: "127.0.0.1:8780"}
	for _, tt := range []struct {
		path, want string
		with       listenFlags
	}{
		{"/v3", "--listen 0.0.0.0:PORT", listenFlags{Listen: "0.0.0.0:8780"}},
		{"/_sim/leaks", "--control-token TOKEN", listenFlags{Listen: "127.0.0.1:8780", ControlToken: "secret"}},
	} {
		status, text := ask(local, named, tt.path)
		if status != http.StatusForbidden || !strings.Contains(text, tt.want) || !strings.Contains(text, `"`+named+`"`) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %d %s, want 403, the name and %s in one line", tt.path, status, text, tt.want)
		}
		if status, text := ask(tt.with, named, tt.path); status != http.StatusOK {
			t.Errorf("%s with %s: %d %s", tt.path, tt.want, status, text)
		}
		for _, host := range []string{"localhost:8780", "192.0.2.1:8780", "[::1]:8780"} {
			if status, text := ask(local, host, tt.path); status != http.StatusOK {
				t.Errorf("%s of %s: %d %s", tt.path, host, status, text)
			}
		}
	}
}

func TestAnOpenStreamDoesNotDelayTheShutdown(t *testing.T) {
	t.Parallel()
	served := start(t, "serve", "--control-token", "open")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, served.env["CYSIM_URL"]+"/_sim/stream", nil)
	must(t, err)
	req.Header.Set("X-Control-Token", "open")
	answer, err := direct.Do(req)
	must(t, err)
	defer answer.Body.Close()
	first := make([]byte, len("event: change"))
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != "event: change" {
		t.Errorf("%s: %q %v", answer.Status, first, err)
	}
	if status := served.stop(); status != 0 || strings.Contains(served.stderr.String(), "cut off") {
		t.Errorf("status %d: %s", status, served.stderr)
	}
}

func TestAConnectionWithoutARequestDoesNotDelayTheShutdown(t *testing.T) {
	t.Parallel()
	served := start(t, "serve")
	unused, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(served.env["CYSIM_URL"], "http://"))
	must(t, err)
	defer unused.Close()
	if status, _ := get(t, served.env["CYSIM_URL"]+"/_sim/health", ""); status != http.StatusOK { // which the server accepts later
		t.Errorf("status: got %d, want 200", status)
	}
	if status := served.stop(); status != 0 || strings.Contains(served.stderr.String(), "cut off") {
		t.Errorf("status %d: %s", status, served.stderr)
	}
}

func TestARequestInProgressIsFinishedAfterTheSignal(t *testing.T) {
	t.Parallel()
	listener, err := listenFlags{Listen: "127.0.0.1:0"}.open(t.Context(), slog.New(slog.DiscardHandler), "")
	must(t, err)
	ctx, signal := context.WithCancel(t.Context())
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		signal()
		w.WriteHeader(http.StatusAccepted)
	})
	ended := make(chan error, 1)
	go func() {
		ended <- serveHTTP(ctx, listener, service{handler: handler}, slog.New(slog.DiscardHandler))
	}()
	if status, _ := get(t, baseURL(listener, nil), ""); status != http.StatusAccepted {
		t.Errorf("status: got %d, want 202", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
