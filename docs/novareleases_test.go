package docs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/nova"
)

// TestTheTableOfNovaReleases compares the table of the page with what the simulated Nova answers;
// GOCYBORG_UPDATE=1 writes it.
func TestTheTableOfNovaReleases(t *testing.T) {
	t.Parallel()
	const page, begin, end = "compat.md", "<!-- nova releases: generated -->\n", "<!-- end of nova releases -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	have, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table between its marks", page)
	}
	want := "| version | series | microversions | a list of no events | providers of Nova |\n|---|---|---|---|---|\n"
	for _, r := range nova.Releases() {
		server := nova.New(nova.Config{Release: r})
		ask := func(method, path, body string) []byte {
			request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			request.Header.Set("X-Auth-Token", "admin")
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			return answer.Body.Bytes()
		}
		var document struct {
			Version struct {
				Minimum string `json:"min_version"`
				Maximum string `json:"version"`
			}
		}
		var refusal struct{ BadRequest struct{ Message string } }
		if err := json.Unmarshal(ask(http.MethodGet, "/compute/v2.1", ""), &document); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(ask(http.MethodPost, "/compute/v2.1/os-server-external-events", `{"events": []}`), &refusal); err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(refusal.BadRequest.Message, "[] ")
		traits := "-"
		if owner := r.OwnerTraits(); len(owner) > 0 {
			traits = "`" + strings.Join(owner, "`, `") + "`"
		}
		want += fmt.Sprintf("| `%s` | `%s` | %s to %s | %s | %s |\n", r, r.Series(), document.Version.Minimum, document.Version.Maximum, text, traits)
	}
	if have == want {
		return
	}
	if os.Getenv(update) != "" {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table of releases (-page +server):\n%s", cmp.Diff(have, want))
}
