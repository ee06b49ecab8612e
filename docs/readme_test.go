package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The Go snippets of the README are parts of programs that are compiled and
// run by their own tests.
func TestREADMESnippetsStandInTheExamples(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, file := range []string{"../examples/agent/main.go", "../examples/fixture/fixture_test.go"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(data)
	}
	for _, snippet := range snippets(t, "../README.md", "go") {
		if !strings.Contains(sources.String(), snippet) {
			t.Errorf("no example contains this snippet of the README:\n%s", snippet)
		}
	}
}

func TestREADMENamesThePackagesThatExist(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "## The packages\n")
	section, _, _ = strings.Cut(section, "\n#")
	rows := 0
	for line := range strings.Lines(section) {
		name, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "`")
		rows++
		if info, err := os.Stat("../" + name); err != nil || !info.IsDir() {
			t.Errorf("the README's package table has %s, which is no folder", name)
		}
	}
	if rows < 10 {
		t.Errorf("found %d rows of the package table", rows)
	}
}

// marked returns the part of a page between two marks, marks included.
func marked(t *testing.T, page, text, name, end string) string {
	t.Helper()
	i, j := strings.Index(text, name), strings.Index(text, end)
	if i < 0 || j < i {
		t.Fatalf("%s lacks the marks %s and %s", page, name, end)
	}
	return text[i : j+len(end)]
}

func TestTheREADMEHasTheTablesOfTheCyborgPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("cyborg-api.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]string{
		"<!-- routes: generated -->": "<!-- end of routes -->",
		"<!-- differences -->":       "<!-- end of differences -->",
	} {
		want, got := marked(t, "cyborg-api.md", string(page), name, end), marked(t, "README.md", string(readme), name, end)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("README.md differs from cyborg-api.md (-want +got):\n%s", diff)
		}
	}
}
