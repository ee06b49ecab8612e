//go:build suites

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
)

// These tests run the acceptance suite of gophercloud, unmodified, from the module that go.mod
// names, against a cysim in a process of its own. docs/dev/suites.md has the counts.

// suiteTest is a line of testdata/suites/gophercloud.txt.
type suiteTest struct {
	pkg, name string
	how       string // empty: as the administrator; else "as USER" or "left out: REASON"
}

func TestSuiteOfGophercloud(t *testing.T) {
	module := listModule(t, "{{.Dir}}")
	tests := suiteTests(t)
	c := bootCloud(t)
	c.addImage(t)
	for _, pkg := range []string{"placement/v1", "identity/v3", "image/v2"} {
		t.Run(pkg, func(t *testing.T) {
			dir := filepath.Join(module, "internal/acceptance/openstack", pkg)
			var all []string
			byUser := make(map[string][]string)
			ran := 0
			for _, test := range tests {
				if test.pkg != pkg {
					continue
				}
				all = append(all, test.name)
				user := "admin"
				if other, found := strings.CutPrefix(test.how, "as "); found {
					user = other
				}
				if !strings.HasPrefix(test.how, "left out: ") {
					byUser[user] = append(byUser[user], test.name)
					ran++
				}
			}
			if diff := cmp.Diff(declaredTests(t, dir), slices.Sorted(slices.Values(all))); diff != "" {
				t.Errorf("testdata/suites/gophercloud.txt (-suite +listed):\n%s", diff)
			}
			for user, names := range byUser {
				c.runSuite(t, dir, user, names)
			}
			checkCount(t, fmt.Sprintf("| gophercloud %s | `%s` | %d of %d |", listModule(t, "{{.Version}}"), pkg, ran, len(all)))
		})
	}
}

// The script puts cysim where the suite has a Placement in its own process.
func TestSuiteOfOSCPlacement(t *testing.T) {
	const suite = "../../docs/suites/osc-placement"
	if _, err := exec.Command("/usr/bin/python3", "-c", "import osc_placement.tests.functional, oslotest, placement.tests.functional.fixtures").CombinedOutput(); err != nil {
		t.Fatalf("install python3-osc-placement, python3-placement and python3-oslotest: %v", err)
	}
	binary := filepath.Join(t.TempDir(), "cysim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", suite, binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	version, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "from importlib.metadata import version; print(version('osc-placement'))").Output()
	must(t, err)
	checkCount(t, fmt.Sprintf("| osc-placement %s | functional | %s |", strings.TrimSpace(string(version)), lines[len(lines)-1]))
}

// listModule returns a property of the module of gophercloud.
func listModule(t *testing.T, format string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", format, "github.com/gophercloud/gophercloud/v2").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func suiteTests(t *testing.T) []suiteTest {
	t.Helper()
	data, err := os.ReadFile("testdata/suites/gophercloud.txt")
	must(t, err)
	var tests []suiteTest
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		fields := append(strings.SplitN(line, " ", 3), "", "")
		tests = append(tests, suiteTest{fields[0], fields[1], fields[2]})
	}
	return tests
}

// declaredTests are the tests in the files of a directory, sorted.
func declaredTests(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || files == nil {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	var names []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		for _, match := range declaration.FindAllSubmatch(data, -1) {
			names = append(names, string(match[1]))
		}
	}
	slices.Sort(names)
	return names
}

// runSuite runs tests of a package as a user. All must pass.
func (c cloud) runSuite(t *testing.T, dir, user string, names []string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "test", "-v", "-count=1", "-timeout=2m", "-tags=fixtures acceptance", "-run=^("+strings.Join(names, "|")+")$", ".")
	command.Dir = dir
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OS_") })
	command.Env = slices.Concat(own, c.exports, []string{"OS_USERNAME=" + user, "OS_PROJECT_NAME=" + user, "OS_DOMAIN_NAME=Default", "OS_BRANCH=master", "GOFLAGS=", "GOWORK=off"})
	out, err := command.CombinedOutput()
	var passed []string
	for _, match := range regexp.MustCompile(`(?m)^--- PASS: (\w+)`).FindAllSubmatch(out, -1) {
		passed = append(passed, string(match[1]))
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(passed))); diff != "" || err != nil {
		t.Errorf("as %s: %v (-listed +passed):\n%s\n%s", user, err, diff, out)
	}
}

// addImage stores an image, as clouds have one.
func (c cloud) addImage(t *testing.T) {
	t.Helper()
	for _, assignment := range c.exports {
		name, value, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, "OS_") {
			t.Setenv(name, strings.Trim(value, `'"`))
		}
	}
	t.Setenv("OS_DOMAIN_NAME", "Default")
	options, err := openstack.AuthOptionsFromEnv()
	must(t, err)
	provider, err := openstack.AuthenticatedClient(t.Context(), options)
	must(t, err)
	service, err := openstack.NewImageV2(provider, gophercloud.EndpointOpts{})
	must(t, err)
	_, err = images.Create(t.Context(), service, images.CreateOpts{Name: "cirros", DiskFormat: "qcow2", ContainerFormat: "bare"}).Extract()
	must(t, err)
}

// checkCount fails the test unless docs/dev/suites.md has a line.
func checkCount(t *testing.T, line string) {
	t.Helper()
	data, err := os.ReadFile("../../docs/dev/suites.md")
	must(t, err)
	if !strings.Contains(string(data), line) {
		t.Errorf("docs/dev/suites.md lacks %s", line)
	}
}
