package placementsim

import (
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// rowsOf are the rows of a service as text.
func rowsOf(s *Server) string {
	var text strings.Builder
	for _, c := range s.state.Rows() {
		fmt.Fprintln(&text, c.Table, c.Key, c.After)
	}
	return text.String()
}

// The body of the PUT of a resource class is read until it only ensures that there is one.
func TestUnreadDependsOnTheMicroversion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"1.6": "", "1.7": "body", "1.39": "body"} {
		recorder := simhttp.NewRecorder(10)
		placement := newServer(t, Config{})
		converse(t, placement, turn{version: "1.39", method: "PUT", path: "/resource_classes/CUSTOM_OLD", status: 201})
		server := simhttp.Recording(placement, recorder)
		send(t, server, version, http.MethodPut, "/resource_classes/CUSTOM_OLD?a=1", `{"name": "CUSTOM_NEW"}`)
		got := fmt.Sprint(recorder.Exchanges()[0].Unrecognized)
		if want := strings.TrimSpace("[query a " + want); got != want+"]" {
			t.Errorf("at %s: got %s, want %s]", version, got, want)
		}
	}
}

func TestStrictPlacementSaysSoInItsOwnWords(t *testing.T) {
	t.Parallel()
	recorder := simhttp.NewRecorder(10)
	recorder.RefusesUnrecognized = true
	server := seeded(t, Config{})
	before := rowsOf(server)
	got := send(t, simhttp.Recording(server, recorder), "1.39", http.MethodDelete, "/resource_providers/"+rp2+"?force=1", "")
	text := fmt.Sprint(got.at(t, "errors", "0", "detail"))
	if got.status != http.StatusBadRequest || !strings.Contains(text, "query force") || got.at(t, "errors", "0", "code") != codeUndefined {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if after := rowsOf(server); after != before {
		t.Errorf("the refused request changed something:\n%s", after)
	}
}

// TestSchemasHaveOneFormOfKeys: the rows of consumers are checked by the pattern of the schemas.
func TestSchemasHaveOneFormOfKeys(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(schemaFiles, "schemas/*.json")
	must(t, err)
	form, seen := regexp.MustCompile(`"([^"]*\{36\}[^"]*)":`), 0
	for _, name := range files {
		data, err := schemaFiles.ReadFile(name)
		must(t, err)
		for _, m := range form.FindAllSubmatch(data, -1) {
			seen++
			if string(m[1]) != uuidKey.String() {
				t.Errorf("%s: the form of keys is %s, want %s", name, m[1], uuidKey)
			}
		}
	}
	if seen == 0 {
		t.Error("no schema has a form of keys")
	}
}
