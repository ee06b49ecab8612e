package simcloud

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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
	must(t, err)
	defer func() {
		if err := cloud.Close(); err == nil {
			t.Error("the last save went well, without a file")
		}
	}()
	if w := answers(t, cloud, http.MethodPut, keptGuest, `{"host": "cn0"}`); w.Code != http.StatusOK {
		t.Fatalf("with a file: %d %s", w.Code, w.Body)
	}
	must(t, cloud.keeper.Load().File.Close())
	if w := answers(t, cloud, http.MethodDelete, keptGuest, ""); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "could not be written") {
		t.Errorf("a change without a file: %d %s", w.Code, w.Body)
	}
	if w := answers(t, cloud, http.MethodGet, "/_sim/guests", ""); w.Code != http.StatusOK {
		t.Errorf("to look changes nothing: %d %s", w.Code, w.Body)
	}
	if err := cloud.Save(); err == nil {
		t.Error("Save: no error without a file")
	}
}
