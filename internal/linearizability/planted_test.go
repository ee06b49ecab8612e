//go:build histories

package linearizability

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// lostUpdates repeats a refused write of inventories with the present generation, as careless clients do:
// what another client wrote in between is lost.
type lostUpdates struct{ http.RoundTripper }

func (l lostUpdates) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/inventories") {
		return l.RoundTripper.RoundTrip(r)
	}
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	again, now := r.Clone(r.Context()), r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(sent))
	response, err := l.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusConflict {
		return response, err
	}
	now.Method, now.Body, now.ContentLength = http.MethodGet, nil, 0
	read, err := l.RoundTripper.RoundTrip(now)
	if err != nil {
		return response, nil
	}
	defer read.Body.Close()
	var body, present map[string]any
	if json.Unmarshal(sent, &body) != nil || json.NewDecoder(read.Body).Decode(&present) != nil {
		return response, nil
	}
	body["resource_provider_generation"] = present["resource_provider_generation"]
	sent, err = json.Marshal(body)
	if err != nil {
		return response, nil
	}
	_ = response.Body.Close()
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
	return l.RoundTripper.RoundTrip(again)
}

// lostWrites acknowledges some writes and does not send them.
type lostWrites struct {
	http.RoundTripper
	path   *regexp.Regexp
	status int
}

func (l lostWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || !l.path.MatchString(r.URL.Path) || rand.IntN(200) > 0 {
		return l.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: l.status, Proto: r.Proto, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// foreignHandles shows the attach handle of the second GPU for each bound request.
type foreignHandles struct{ http.RoundTripper }

func (f foreignHandles) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.RoundTripper.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/accelerator_requests") {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(`"`+busOf(0)+`"`), []byte(`"`+busOf(1)+`"`))))
	return response, err
}

// The checker finds what it is for, and draws it.
func TestPlantedViolationsAreFound(t *testing.T) {
	to := http.RoundTripper(&http.Transport{MaxIdleConnsPerHost: 64})
	for name, h := range map[string]history{
		"lost updates of inventories": {mostOfPiece, 20_000, generations, lostUpdates{to}},
		"lost binds":                  {200, 20_000, binds, lostWrites{to, regexp.MustCompile("/accelerator_requests"), http.StatusAccepted}},
		"foreign handles":             {200, 2_000, binds, foreignHandles{to}},
		"lost claims":                 {mostOfPiece, 20_000, claims, lostWrites{to, regexp.MustCompile("/allocations"), http.StatusNoContent}},
	} {
		t.Run(name, func(t *testing.T) {
			checks := h.run(t)
			if len(checks.texts) == 0 {
				t.Fatal("no piece was rejected")
			}
			t.Log(checks.texts[0])
			if picture, err := os.ReadFile(checks.pictures[0]); err != nil || !bytes.Contains(picture, []byte("<html")) {
				t.Errorf("the picture has %d bytes: %v", len(picture), err)
			}
		})
	}
}
