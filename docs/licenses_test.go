package docs_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// modulesOf lists the modules of what some packages need, with their directories.
func modulesOf(t *testing.T, args ...string) map[string]string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}"}, args...)...)
	command.Dir = ".."
	command.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	modules := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			modules[path] = dir
		}
	}
	return modules
}

// licenseOf reads the license of a module.
func licenseOf(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"LICENSE*", "COPYING*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is good
		names = append(names, found...)
	}
	kinds := []struct{ license, phrase string }{
		{"MPL-2.0", "Mozilla Public License"},
		{"Apache-2.0", "Apache License"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"BSD-3-Clause", "Neither the name"},
		{"BSD-2-Clause", "Redistributions in binary form"},
	}
	licenses := make(map[string]bool)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(data)), " ")
		for _, kind := range kinds {
			if strings.Contains(text, kind.phrase) {
				licenses[kind.license] = true
			}
		}
	}
	if licenses["BSD-3-Clause"] {
		delete(licenses, "BSD-2-Clause")
	}
	if licenses["MPL-2.0"] {
		licenses = map[string]bool{"MPL-2.0": true} // its text names others
	}
	return strings.Join(slices.Sorted(maps.Keys(licenses)), ", ")
}

// testTags are the build tags of our tests.
func testTags(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "\ntags=(")
	tags, _, closed := strings.Cut(rest, ")\n")
	if !found || !closed {
		t.Fatal(".ci/run has no list of tags")
	}
	return tags
}

// TestTheLicensesOfAllModulesAreListed; GOCYBORG_UPDATE=1 writes the table.
func TestTheLicensesOfAllModulesAreListed(t *testing.T) {
	t.Parallel()
	library := modulesOf(t, "./cyborgclient/...", "./requestspec/...", "./matching/...", "./domainxml/...", "./sim/...", "./fault/...", "./driver/...",
		"./fakecyborg/...", "./placementsim/...", "./simcloud/...")
	program := modulesOf(t, "./cmd/...")
	all := modulesOf(t, "-test", "-tags", strings.ReplaceAll(testTags(t), " ", ","), "./...")
	want := "| module | license | in |\n|---|---|---|\n"
	for _, path := range slices.Sorted(maps.Keys(all)) {
		license := licenseOf(t, all[path])
		if license == "" {
			t.Errorf("%s: its license is not known", path)
		}
		var in []string
		if library[path] != "" {
			in = append(in, "library")
		}
		if program[path] != "" {
			in = append(in, "cysim")
		}
		if in == nil {
			in = []string{"tests"}
		}
		want += fmt.Sprintf("| `%s` | %s | %s |\n", path, license, strings.Join(in, ", "))
	}
	const page, begin, end = "dev/licenses.md", "<!-- modules: generated -->\n", "<!-- end of modules -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	have, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table between its marks", page)
	}
	switch {
	case have == want:
	case os.Getenv(update) != "":
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of modules (-page +go.mod):\n%s", cmp.Diff(have, want))
	}
}
