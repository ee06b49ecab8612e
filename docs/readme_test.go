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
	for _, file := range []string{
		"../examples/agent/main.go", "../examples/fixture/fixture_test.go", "../examples/agent/drill_test.go", "../examples/agent/own_test.go",
		"../placementsim/example_mock_test.go", "../placementsim/run_test.go",
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(data)
	}
	for _, page := range []string{"../README.md", "first-agent.md", "test-your-agent.md", "drill-your-agent.md"} {
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
const maxWords = 1200

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
