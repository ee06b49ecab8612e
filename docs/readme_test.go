package docs_test

import (
	"os"
	"strings"
	"testing"
)

// The Go snippets of the README are parts of programs that are compiled and
// run by their own tests.
func TestREADMESnippetsStandInTheExamples(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, file := range []string{"../examples/agent/main.go", "../examples/fixture/fixture_test.go", "../examples/agent/drill_test.go"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(data)
	}
	for _, page := range []string{"../README.md", "test-your-agent.md", "drill-your-agent.md"} {
		for _, snippet := range snippets(t, page, "go") {
			if !strings.Contains(sources.String(), snippet) {
				t.Errorf("no example contains this snippet of %s:\n%s", page, snippet)
			}
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
