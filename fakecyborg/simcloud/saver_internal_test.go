package simcloud

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// answers returns what a cloud answers to a request.
func answers(t *testing.T, c *Cloud, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w
}

const keptGuest = "/_sim/guests/2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"

func TestAChangeThatCannotBeKeptIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	cloud, err := New(t.Context(), goldenModel(), WithStateFile(filepath.Join(t.TempDir(), "state")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cloud.Close(); err == nil {
			t.Error("the last save went well, without a file")
		}
	}()
	if w := answers(t, cloud, http.MethodPut, keptGuest, `{"host": "cn0"}`); w.Code != http.StatusOK {
		t.Fatalf("with a file: %d %s", w.Code, w.Body)
	}
	if err := cloud.saver.Load().file.close(); err != nil {
		t.Fatal(err)
	}
	if w := answers(t, cloud, http.MethodDelete, keptGuest, ""); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "could not be kept") {
		t.Errorf("a change without a file: %d %s", w.Code, w.Body)
	}
	if w := answers(t, cloud, http.MethodGet, "/_sim/guests", ""); w.Code != http.StatusOK {
		t.Errorf("to look changes nothing: %d %s", w.Code, w.Body)
	}
	if err := cloud.Save(); err == nil {
		t.Error("Save: no error without a file")
	}
}

func TestRequestsThatEndTogetherShareAWrite(t *testing.T) {
	t.Parallel()
	cloud, err := New(t.Context(), goldenModel(), WithStateFile(filepath.Join(t.TempDir(), "state")))
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	const requests = 50
	before := cloud.saver.Load().begun
	var sent sync.WaitGroup
	for range requests {
		sent.Go(func() {
			if w := answers(t, cloud, http.MethodPut, keptGuest, `{"host": "cn0"}`); w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	sent.Wait()
	if saves := cloud.saver.Load().begun - before; saves < 1 || saves > requests {
		t.Errorf("%d saves for %d requests", saves, requests)
	}
}

func BenchmarkKeptRequest(b *testing.B) {
	cloud, err := New(b.Context(), ScaleModel(8, 8), WithStateFile(filepath.Join(b.TempDir(), "state")))
	if err != nil {
		b.Fatal(err)
	}
	defer cloud.Close()
	for b.Loop() {
		w := httptest.NewRecorder()
		cloud.Handler().ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodPut, keptGuest, strings.NewReader(`{"host": "cn0"}`)))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
