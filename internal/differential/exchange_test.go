//go:build differential

package differential_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// request is sent to both services. Identifiers, tokens and numbers that a service made up have labels in it.
type request struct {
	method, target, body string // target is path and query
	header               [][2]string
}

// String is the request as differences show it.
func (r request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.method, r.target)
	for _, pair := range r.header {
		fmt.Fprintf(&b, "\n%s: %s", pair[0], pair[1])
	}
	if r.body != "" {
		body := r.body
		if len(body) > 1000 {
			body = body[:1000] + "..."
		}
		b.WriteString("\n" + body)
	}
	return b.String()
}

func (r request) path() string { path, _, _ := strings.Cut(r.target, "?"); return path }

// set replaces a header or adds it.
func (r *request) set(name, value string) {
	r.unset(name)
	r.header = append(r.header, [2]string{name, value})
}

func (r *request) unset(name string) {
	var kept [][2]string
	for _, pair := range r.header {
		if pair[0] != name {
			kept = append(kept, pair)
		}
	}
	r.header = kept
}

func isUUID(text string) bool { return uuidForm.MatchString(text) }

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

type answer struct {
	status int
	header http.Header
	body   string
}

// side is one of the services, with what it calls the things that have labels.
type side struct {
	name      string
	url       string
	transport http.RoundTripper
	names     map[string]string // by label
}

func newSide(name, url string, transport http.RoundTripper) *side {
	return &side{name: name, url: url, transport: transport, names: make(map[string]string)}
}

func realTransport() http.RoundTripper {
	return &http.Transport{DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: 2 * time.Minute}
}

// called replaces labels by names.
func (s *side) called(text string) string {
	var pairs []string
	for label, name := range s.names {
		pairs = append(pairs, label, name)
		if isUUID(label) { // other spellings of the same
			pairs = append(pairs, strings.ToUpper(label), strings.ToUpper(name), strings.ReplaceAll(label, "-", ""), strings.ReplaceAll(name, "-", ""))
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// labelled replaces names by labels. Numbers keep their names: they are everywhere.
func (s *side) labelled(text string) string {
	var pairs []string
	for label, name := range s.names {
		if len(name) >= 32 {
			pairs = append(pairs, name, label)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// send sends a request to the service and returns its answer, with labels in it.
func (s *side) send(t *testing.T, req request) answer {
	t.Helper()
	var body io.Reader
	if req.body != "" {
		body = strings.NewReader(s.called(req.body))
	}
	target, err := url.Parse(s.url + s.called(req.target))
	if err != nil {
		t.Fatalf("%s: %v", req, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), req.method, s.url, body)
	if err != nil {
		t.Fatalf("%s: %v", req, err)
	}
	r.URL = target
	for _, pair := range req.header {
		r.Header[http.CanonicalHeaderKey(pair[0])] = []string{s.called(pair[1])}
	}
	resp, err := s.transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %s: %v", s.name, req, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %s: read the answer: %v", s.name, req, err)
	}
	header := make(http.Header)
	for name, values := range resp.Header {
		for _, value := range values {
			header.Add(name, s.labelled(value))
		}
	}
	return answer{resp.StatusCode, header, s.labelled(string(data))}
}
