package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// must ends a test whose set-up fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeFile writes a file in a directory of its own and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// running is a cysim that listens.
type running struct {
	env    map[string]string
	stderr *lockedBuffer
	// stop sends the signal and returns the exit status.
	stop func() int
}

// lockedBuffer is a buffer that a server may write while a test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the content.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs cysim until the test ends and returns once it listens.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	r := &running{env: make(map[string]string), stderr: &lockedBuffer{}}
	r.stop = sync.OnceValue(func() int { cancel(); return <-ended })
	t.Cleanup(func() { r.stop() })
	go func() {
		status := run(ctx, args, write, r.stderr)
		_ = write.Close() // never fails
		ended <- status
	}()
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "command -v unset ") {
			continue // the test has set variables of clients
		}
		assignment, ok := strings.CutPrefix(lines.Text(), "export ")
		name, value, found := strings.Cut(assignment, "=")
		if !ok || !found {
			t.Fatalf("standard output has a line that is not an export: %q", lines.Text())
		}
		r.env[name] = value
		if name == "CYSIM_PID" {
			go func() { _, _ = io.Copy(io.Discard, read) }()
			return r
		}
	}
	t.Fatalf("cysim %s ended with %d before it listened: %s", strings.Join(args, " "), r.stop(), r.stderr)
	return nil
}

// cysim runs a command to its end.
func cysim(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), args, &out, &err)
	return status, out.String(), err.String()
}

// direct keeps no connections: an httptest.Server that ends closes those of http.DefaultClient,
// also under a POST of another test.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the status and body of a GET.
func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	if token == "" {
		return reply(t, http.MethodGet, url, "")
	}
	return reply(t, http.MethodGet, url, "", "X-Auth-Token: "+token)
}

// put sends a request, which has to succeed, and returns the answer.
func put(t *testing.T, method, url, body string, headers ...string) string {
	t.Helper()
	status, text := reply(t, method, url, body, headers...)
	if status >= 300 {
		t.Fatalf("%s %s: %d %s", method, url, status, text)
	}
	return text
}

// reply sends a request with headers "Name: value" and returns the answer, of a login the token.
func reply(t *testing.T, method, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := direct.Do(request)
	must(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	must(t, err)
	if token := response.Header.Get("X-Subject-Token"); token != "" && response.StatusCode == http.StatusCreated {
		return response.StatusCode, token
	}
	return response.StatusCode, string(data)
}
