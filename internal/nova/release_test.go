package nova_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/nova"
)

// The microversions come from nova/api/openstack/api_version_request.py of each release; Nova 34 is Debian's 34.0.0-4. The text
// about an empty list is that of jsonschema, which the constraints of 2025.1 raised from 4.19.2 to 4.23.0. OWNER_NOVA: dc56671.
func TestEachReleaseAnswersAsUpstream(t *testing.T) {
	t.Parallel()
	const short, empty = "[] is too short", "[] should be non-empty"
	for _, tt := range []struct {
		version, series string
		max             int
		text, owner     string // owner: of the hosts' resource providers
	}{
		{"26", "zed", 93, short, ""}, {"27", "2023.1", 95, short, ""}, {"28", "2023.2", 95, short, ""}, {"29", "2024.1", 96, short, ""}, {"30", "2024.2", 96, short, ""},
		{"31", "2025.1", 100, empty, ""}, {"32", "2025.2", 100, empty, ""}, {"33", "2026.1", 103, empty, ""}, {"34", "2026.2", 104, empty, "OWNER_NOVA"}, {"34", "", 104, empty, "OWNER_NOVA"},
	} {
		for _, name := range []string{tt.version, tt.series} {
			release, err := nova.ParseRelease(name)
			if err != nil || release.String() != tt.version {
				t.Fatalf("%q: got %s, %v; want %s", name, release, err, tt.version)
			}
			if owner := strings.Join(release.OwnerTraits(), " "); owner != tt.owner {
				t.Errorf("%q: traits %q, want %q", name, owner, tt.owner)
			}
			server := nova.New(nova.Config{Release: release})
			var document struct{ Version struct{ Version string } }
			must(t, json.Unmarshal([]byte(send(t, server, "GET", "/compute/v2.1", "").body), &document))
			ask := func(version string) answer {
				return send(t, server, "GET", "/compute/v2.1/flavors", "", "X-Auth-Token", "admin", "OpenStack-API-Version", "compute "+version)
			}
			most, more := fmt.Sprint("2.", tt.max), fmt.Sprint("2.", tt.max+1)
			got := []string{document.Version.Version, ask("latest").Header.Get("OpenStack-API-Version"), fmt.Sprint(ask(most).StatusCode), fmt.Sprint(ask(more).StatusCode)}
			if diff := cmp.Diff([]string{most, "compute " + most, "200", "406"}, got); diff != "" {
				t.Errorf("%q: document, latest, maximum and more (-want +got):\n%s", name, diff)
			}
			if got := post(t, server, `{"events": []}`); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.body, tt.text) {
				t.Errorf("%q: no events: %d %s, want %s", name, got.StatusCode, got.body, tt.text)
			}
		}
	}
	for _, unknown := range []string{"antelope", "35", "25", "30.0.0", "2027.1"} {
		if _, err := nova.ParseRelease(unknown); err == nil || !strings.Contains(err.Error(), "zed 26, 2023.1 27") {
			t.Errorf("%q: got error %v, want the list of releases", unknown, err)
		}
	}
}
