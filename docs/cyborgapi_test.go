package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// update writes the generated table of cyborg-api.md instead of comparing it:
// GOCYBORG_UPDATE=1 go test ./docs
const update = "GOCYBORG_UPDATE"

// served is what a route's row says beside what the routes themselves tell.
type served struct {
	versions string // what differs between microversions
	proof    []string
}

const everyVersion = "2.0 to 2.3"

// servedBy tells, for each operation, which tests prove it. CY numbers are
// subtests of TestCY.
func servedBy() map[string]served {
	plain := func(proof ...string) served { return served{everyVersion, proof} }
	sdk, cli := "TestOpenStackSDK", "TestOpenStackClientAcceleratorRequests"
	profiles, hardware := "TestOpenStackClientDeviceProfiles", "TestOpenStackClientHardware"
	return map[string]served{
		"accelerator.root.get":              plain("CY-001"),
		"accelerator.version.get":           plain("CY-002", "CY-003", "CY-004", "CY-005", "CY-006", sdk),
		"accelerator.device_profile.list":   plain("CY-020", "CY-033", profiles, sdk),
		"accelerator.device_profile.create": plain("CY-020", "CY-026", "CY-027", "CY-028", "CY-029", "CY-030", "CY-031", "CY-035", profiles, sdk),
		"accelerator.device_profile.delete": plain("CY-021", "CY-022", "CY-023", "CY-024", "CY-025", "CY-034", profiles, sdk),
		"accelerator.device_profile.get":    {"by uuid 2.0 to 2.3, by name from 2.2", []string{"CY-020", "CY-024", "CY-032", profiles, sdk}},
		"accelerator.arq.list":              plain("CY-053", "CY-069", "CY-070", "CY-074", "CY-075", cli, sdk),
		"accelerator.arq.create":            plain("CY-050", "CY-051", "CY-052", cli, sdk),
		"accelerator.arq.bind": {
			"2.0 to 2.3, `/project_id` from 2.1",
			[]string{"CY-055", "CY-056", "CY-057", "CY-058", "CY-059", "CY-060", "CY-061", "CY-062", "CY-065", "CY-076", "CY-080", "TestOpenStackClientBindsOnZed", sdk},
		},
		"accelerator.arq.delete":         plain("CY-053", "CY-054", "CY-071", "CY-072", "CY-073", "CY-074", cli, sdk),
		"accelerator.arq.get":            plain("CY-053", "CY-054", "CY-074", cli, sdk),
		"accelerator.device.list":        {"2.0 to 2.3, `status` shown from 2.3", []string{"CY-100", "CY-103", "CY-107", hardware, sdk}},
		"accelerator.device.get":         {"2.0 to 2.3, `status` shown from 2.3", []string{"CY-101", "CY-103", hardware, sdk}},
		"accelerator.device.enable":      plain("CY-104", "TestDisabledDeviceStaysReserved"),
		"accelerator.device.disable":     plain("CY-104", "TestDisabledDeviceStaysReserved"),
		"accelerator.deployable.list":    plain("CY-102", "CY-107", hardware, sdk),
		"accelerator.deployable.get":     plain("CY-101", "CY-102", hardware, sdk),
		"accelerator.deployable.program": plain("CY-105", hardware, sdk),
		"accelerator.attribute.list":     plain("CY-102", "CY-106"),
		"accelerator.attribute.create":   plain("CY-106"),
		"accelerator.attribute.get":      plain("CY-101", "CY-106"),
		"accelerator.attribute.delete":   plain("CY-106"),
	}
}

// routeTable renders the routes of both releases.
func routeTable(t *testing.T) string {
	t.Helper()
	type row struct {
		fakecyborg.Route
		releases []string
	}
	var rows []row
	for _, release := range []string{fakecyborg.ReleaseZed, fakecyborg.Release20262} {
		server, err := fakecyborg.New(fakecyborg.Config{Release: release})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		for _, r := range server.Routes() {
			i := slices.IndexFunc(rows, func(known row) bool { return known.Route == r })
			if i < 0 {
				i, rows = len(rows), append(rows, row{Route: r})
			}
			rows[i].releases = append(rows[i].releases, release)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.Pattern+" "+a.Method, b.Pattern+" "+b.Method) })
	known := servedBy()
	var b strings.Builder
	b.WriteString("| route | operation | microversion | release | proven by |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		facts, ok := known[r.Operation]
		if !ok {
			t.Errorf("operation %s has no row: nothing says what proves it", r.Operation)
		}
		pattern := r.Pattern
		if pattern == "" {
			pattern = "/"
		}
		versions := facts.versions
		if slices.Equal(r.releases, []string{fakecyborg.Release20262}) && versions == everyVersion {
			versions += " (no gate)"
		}
		fmt.Fprintf(&b, "| `%s %s` | `%s` | %s | %s | %s |\n", r.Method, pattern,
			strings.TrimPrefix(r.Operation, "accelerator."), versions, strings.Join(r.releases, ", "), strings.Join(facts.proof, ", "))
	}
	return b.String()
}

const tableBegin, tableEnd = "<!-- routes: generated -->\n", "<!-- end of routes -->\n"

func TestTheTableOfRoutesIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("cyborg-api.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), tableBegin)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("cyborg-api.md lacks the marks %q and %q", tableBegin, tableEnd)
	}
	want := routeTable(t)
	if os.Getenv(update) != "" {
		if err := os.WriteFile("cyborg-api.md", []byte(before+tableBegin+want+tableEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cyborg-api.md (-want +got); %s=1 go test ./docs writes it:\n%s", update, diff)
	}
}

// testSources are all test files of the repository in one text.
func testSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestEveryProofOfARouteExists(t *testing.T) {
	t.Parallel()
	sources := testSources(t)
	for operation, facts := range servedBy() {
		for _, proof := range facts.proof {
			mark := "func " + proof + "(t *testing.T)"
			count := 1
			if strings.HasPrefix(proof, "CY-") {
				mark, count = `"`+proof+`"`, 2 // here and in a test
			}
			if strings.Count(sources, mark) < count {
				t.Errorf("%s: no test has %s", operation, mark)
			}
		}
	}
}

var testName = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

func TestEveryTestNamedInTheAPIPageExists(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("cyborg-api.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, named := testSources(t), 0
	for _, match := range testName.FindAllStringSubmatch(string(data), -1) {
		named++
		if !strings.Contains(sources, "func "+match[1]+"(t *testing.T)") {
			t.Errorf("cyborg-api.md names %s, which is no test", match[1])
		}
	}
	if named < 10 {
		t.Errorf("found %d names of tests", named)
	}
}
