package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The Go snippets of the README are parts of programs that are compiled and
// run by their own tests.
func TestREADMESnippetsStandInTheExamples(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, file := range []string{
		"../examples/agent/main.go", "../examples/fixture/fixture_test.go", "../examples/agent/drill_test.go", "../examples/agent/own_test.go",
		"../placementsim/example_mock_test.go", "../placementsim/run_test.go", "../simcloud/example_synctest_test.go",
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(data)
	}
	for _, page := range []string{"../README.md", "first-agent.md", "test-your-agent.md"} {
		for _, snippet := range snippets(t, page, "go") {
			if !strings.Contains(sources.String(), snippet) {
				t.Errorf("no example contains this snippet of %s:\n%s", page, snippet)
			}
		}
	}
}

// The failure that the README shows is what the example prints.
func TestTheREADMEShowsTheLostReply(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../examples/lostreply/main_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, output, _ := strings.Cut(string(source), "// Output:\n")
	output, _, _ = strings.Cut(output, "}\n")
	var want strings.Builder
	for line := range strings.Lines(output) {
		want.WriteString(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "\t"), "//"), " "))
	}
	if diff := cmp.Diff([]string{want.String()}, snippets(t, "../README.md", "text")); diff != "" {
		t.Errorf("(-example +README):\n%s", diff)
	}
}

// maxWords is how much a newcomer reads before the first link.
const maxWords = 900

func TestTheREADMEIsShort(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if words := len(strings.Fields(string(data))); words > maxWords {
		t.Errorf("the README has %d words, more than %d", words, maxWords)
	}
}

// The limits of what users find in this directory. Pages for developers are in dev.
const (
	maxPages     = 20
	maxPageWords = 27_000
	maxChanges   = 60 // lines
)

// hidden is what does not show names of ours to a reader: the blocks, and comments.
var hidden = regexp.MustCompile(fenced.String() + "|<!--.*?-->")

func TestThePagesOfUsersAreShort(t *testing.T) {
	t.Parallel()
	list, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for _, page := range list {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		words += len(strings.Fields(string(data)))
		if name := regexp.MustCompile(`\bTest[A-Z]\w+`).FindString(hidden.ReplaceAllString(string(data), "")); name != "" {
			t.Errorf("%s names the test %s, which is for developers", page, name)
		}
	}
	if len(list) > maxPages || words > maxPageWords {
		t.Errorf("%d pages with %d words, more than %d or %d", len(list), words, maxPages, maxPageWords)
	}
	changes, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(changes), "\n"); lines > maxChanges {
		t.Errorf("the changelog has %d lines, more than %d", lines, maxChanges)
	}
}

func TestThePageOfThePackagesNamesThoseThatExist(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "## Packages\n")
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
			t.Errorf("the table of packages has %s, which is no folder", name)
		}
	}
	if rows < 10 {
		t.Errorf("found %d rows of the package table", rows)
	}
}
