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
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// update writes the generated tables of cyborg-api.md instead of comparing it:
// GOCYBORG_UPDATE=1 go test ./docs
const update = "GOCYBORG_UPDATE"

// served is what a route's row says beside what the routes themselves tell.
type served struct {
	versions string // what differs between microversions
	proof    []string
}

const everyVersion = "2.0 to 2.3"

// everyRoute are the tests of all routes: the only proof of an operation that servedBy does not have.
var everyRoute = []string{"TestCyborgInputs", "TestEveryRouteIsServedUnderEveryPrefix"}

// servedBy has the tests of each operation. Names in plain words are subtests of TestScenarios.
func servedBy() map[sim.OperationName]served {
	plain := func(proof ...string) served { return served{everyVersion, proof} }
	sdk, cli := "TestOpenStackSDK", "TestOpenStackClientAcceleratorRequests"
	profiles, hardware := "TestOpenStackClientDeviceProfiles", "TestOpenStackClientHardware"
	return map[sim.OperationName]served{
		fault.AcceleratorRootGet:    plain("version list without a token"),
		fault.AcceleratorVersionGet: plain("version document", "no version header means 2.0", "version header with and without the service type", "unsupported versions", "discovery below v2", sdk),
		fault.DeviceProfileList:     plain("life of a profile", "profiles by names", profiles, sdk),
		fault.DeviceProfileCreate:   plain("life of a profile", "profile name twice", "profile uuid twice", "empty profile name", "long profile name", "bad profile groups", "blanks in group keys", "profile create needs admin", profiles, sdk),
		fault.DeviceProfileDelete:   plain("profile delete by name", "profiles delete by names", "profiles delete unknown names", "unknown profile uuid", "profile delete without a name", "delete a profile in use", profiles, sdk),
		fault.DeviceProfileGet:      {"by uuid 2.0 to 2.3, by name from 2.2", []string{"life of a profile", "unknown profile uuid", "profile by name", profiles, sdk}},
		fault.ARQList:               plain("life of a request", "unresolved requests", "bad bind_state", "requests of another project", "list scope", cli, sdk),
		fault.ARQCreate:             plain("one request per unit", "Xilinx doubles requests", "create requests of an unknown profile", cli, sdk),
		fault.ARQBind: {
			"2.0 to 2.3, `/project_id` from 2.1",
			[]string{"bind needs a service token", "bind", "one event POST per PATCH", "instance already has requests", "bind in a wrong state", "project_id of a bind", "rebind after an unbind", "attach handles exhausted", "bind to an unknown provider", "bad patches", "policy and service token", "TestOpenStackClientBindsOnZed", sdk},
		},
		fault.ARQDelete:         plain("life of a request", "unknown request", "delete by instance twice", "delete a bound request needs a service token", "delete an unbound request", "requests of another project", cli, sdk),
		fault.ARQGet:            plain("life of a request", "unknown request", "requests of another project", cli, sdk),
		fault.DeviceList:        {"2.0 to 2.3, `status` shown from 2.3", []string{"device list filters", "device status from 2.3", "sort and limit", hardware, sdk}},
		fault.DeviceGet:         {"2.0 to 2.3, `status` shown from 2.3", []string{"unknown hardware", "device status from 2.3", hardware, sdk}},
		fault.DeviceEnable:      plain("disable and enable a device", "TestDisabledDeviceStaysReserved"),
		fault.DeviceDisable:     plain("disable and enable a device", "TestDisabledDeviceStaysReserved"),
		fault.DeployableList:    plain("deployables and attributes", "sort and limit", hardware, sdk),
		fault.DeployableGet:     plain("unknown hardware", "deployables and attributes", hardware, sdk),
		fault.DeployableProgram: plain("program a deployable", hardware, sdk),
		fault.AttributeList:     plain("deployables and attributes", "attributes"),
		fault.AttributeCreate:   plain("attributes"),
		fault.AttributeGet:      plain("unknown hardware", "attributes"),
		fault.AttributeDelete:   plain("attributes"),
	}
}

// routeTable renders the routes of all releases, with the tests that prove them for the developers' page.
func routeTable(t *testing.T, withProof bool) string {
	t.Helper()
	type row struct {
		sim.Route
		releases []string
	}
	var rows []row
	for _, release := range fakecyborg.Releases() {
		server, err := fakecyborg.New(fakecyborg.Config{Release: release})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		for _, r := range server.Routes() {
			i := slices.IndexFunc(rows, func(known row) bool {
				return known.Operation == r.Operation && known.Method == r.Method && known.Pattern == r.Pattern
			})
			if i < 0 {
				i, rows = len(rows), append(rows, row{Route: r})
			}
			rows[i].releases = append(rows[i].releases, string(release))
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.Pattern+" "+a.Method, b.Pattern+" "+b.Method) })
	known := servedBy()
	var b strings.Builder
	b.WriteString("| route | operation | microversion | release |")
	if withProof {
		b.WriteString(" proven by |")
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", strings.Count(b.String(), "proven")) + "\n")
	for _, r := range rows {
		facts, ok := known[r.Operation]
		if !ok {
			facts = served{everyVersion, everyRoute}
		}
		pattern := r.Pattern
		if pattern == "" {
			pattern = "/"
		}
		versions := facts.versions
		if !slices.Contains(r.releases, string(fakecyborg.ReleaseZed)) && versions == everyVersion {
			versions += " (no gate)"
		}
		fmt.Fprintf(&b, "| `%s %s` | `%s` | %s | %s |", r.Method, pattern, strings.TrimPrefix(string(r.Operation), "accelerator."), versions, since(r.releases))
		if withProof {
			b.WriteString(" " + strings.Join(facts.proof, ", ") + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// since names the first of the releases that have a route.
func since(releases []string) string {
	all := fakecyborg.Releases()
	if len(releases) == len(all) {
		return "all"
	}
	if releases[len(releases)-1] != string(all[len(all)-1]) {
		return strings.Join(releases, ", ")
	}
	return "from " + releases[0]
}

const tableBegin, tableEnd = "<!-- routes: generated -->\n", "<!-- end of routes -->\n"

func TestTheTableOfRoutesIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	for page, withProof := range map[string]bool{"cyborg-api.md": false, "dev/cyborg-api.md": true} {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok1 := strings.Cut(string(data), tableBegin)
		got, after, ok2 := strings.Cut(rest, tableEnd)
		if !ok1 || !ok2 {
			t.Fatalf("%s lacks the marks %q and %q", page, tableBegin, tableEnd)
		}
		want := routeTable(t, withProof)
		if os.Getenv(update) != "" {
			if err := os.WriteFile(page, []byte(before+tableBegin+want+tableEnd+after), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got); %s=1 go test ./docs writes it:\n%s", page, update, diff)
		}
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
	proofs := servedBy()
	proofs["any"] = served{everyVersion, everyRoute}
	for operation, facts := range proofs {
		for _, proof := range facts.proof {
			mark := "func " + proof + "(t *testing.T)"
			count := 1
			if !strings.HasPrefix(proof, "Test") {
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
	data, err := os.ReadFile("dev/cyborg-api.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, named := testSources(t), 0
	for _, match := range testName.FindAllStringSubmatch(string(data), -1) {
		named++
		if !strings.Contains(sources, "func "+match[1]+"(t *testing.T)") {
			t.Errorf("dev/cyborg-api.md names %s, which is no test", match[1])
		}
	}
	if named < 10 {
		t.Errorf("found %d names of tests", named)
	}
}
