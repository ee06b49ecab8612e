package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kinds finds the kinds of changes in the code.
var kinds = regexp.MustCompile(`(?:Kind: |to\.add\(table\w+, .*?)"([a-z_]+)"`)

// tells finds the files that declare tables, or note changes that are none of rows.
var tells = regexp.MustCompile(`tables\.Spec\[|sim\.Change\{|to\.add\(table`)

func TestThePageOfChangesListsEveryKind(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("control-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n### What each request changed\n")
	section, _, _ = strings.Cut(section, "\n#")
	want, got := map[string]bool{"more": true}, []string{}
	for _, root := range []string{"../placementsim", "../fakecyborg", "../internal/keystone", "../internal/nova", "../internal/glance"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if !tells.Match(source) {
				return err
			}
			for _, match := range kinds.FindAllStringSubmatch(string(source), -1) {
				want[match[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_]+`(?:, `[a-z_]+`)*) \\|").FindAllStringSubmatch(section, -1) {
		got = append(got, strings.Split(strings.Trim(row[1], "`"), "`, `")...)
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), got); diff != "" {
		t.Errorf("kinds of changes (-code +page):\n%s", diff)
	}
	diagram, err := os.ReadFile("../simcloud/testdata/control/get-requests-diagram-of-a-spawn.golden")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(diagram), snippets(t, "control-api.md", "mermaid")[0]) {
		t.Error("the diagram on the page is not what a spawn gives")
	}
}
