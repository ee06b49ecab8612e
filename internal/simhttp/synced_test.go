package simhttp

import (
	"errors"
	"net/http"
	"net/http/httptest"
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

// A disk that cannot be written keeps nobody from looking.
func TestReadsAreAnsweredWithoutADisk(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodDelete: 500} {
		w := httptest.NewRecorder()
		Synced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func() error { return errors.New("full") }).
			ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		if w.Code != want {
			t.Errorf("%s: got %d, want %d", method, w.Code, want)
		}
	}
}
