package simhttp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// What an answer shows survives the end of the process: also a read waits, because it may show what another
// request has changed and not yet written.
func TestNoAnswerShowsWhatIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut} {
		synctest.Test(t, func(t *testing.T) {
			written := make(chan struct{})
			h := Synced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("seen")) }),
				func() error { <-written; return nil })
			w, answered := httptest.NewRecorder(), false
			go func() {
				h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
				answered = true
			}()
			synctest.Wait()
			if answered || w.Body.Len() > 0 {
				t.Errorf("%s is answered before the disk has what it shows", method)
			}
			close(written)
			synctest.Wait()
			if !answered || w.Code != http.StatusOK || w.Body.String() != "seen" {
				t.Errorf("%s: %d %s, answered: %v", method, w.Code, w.Body, answered)
			}
		})
	}
}

// What cannot be written is not shown, except by the simulator itself.
func TestNoAnswerShowsWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]struct {
		status int
		text   string
	}{
		"GET /list": {500, "what the answer shows could not be written to the state file: full\n"}, "HEAD /list": {500, ""},
		"DELETE /list":       {500, "the change was made, but could not be written to the state file: full\n"},
		"GET /_sim/state":    {200, "seen"},
		"DELETE /_sim/state": {500, "the change was made, but could not be written to the state file: full\n"},
	} {
		method, path, _ := strings.Cut(request, " ")
		full := true
		h := Synced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("seen")) }), func() error {
			if full {
				return errors.New("full")
			}
			return nil
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if got := w.Body.String(); w.Code != want.status || want.text != "" && got != want.text || strings.Contains(got, "seen") != (want.status == 200) {
			t.Errorf("%s: got %d %q, want %d %q", request, w.Code, got, want.status, want.text)
		}
		full = false
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s, once there is room: %d", request, w.Code)
		}
	}
}
