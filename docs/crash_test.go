package docs_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheCrashPageQuotesTheExample(t *testing.T) {
	t.Parallel()
	var sources []string
	for _, example := range []string{"reconcile", "recover"} {
		source, err := os.ReadFile("../cyborgclient/spawn/example_" + example + "_test.go")
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(source))
	}
	for _, snippet := range snippets(t, "after-a-crash.md", "go") {
		if !strings.Contains(strings.Join(sources, ""), snippet) {
			t.Errorf("the examples do not contain this snippet:\n%s", snippet)
		}
	}
}
