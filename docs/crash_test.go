package docs_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheCrashPageQuotesTheExample(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../cyborgclient/spawn/example_reconcile_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, snippet := range snippets(t, "after-a-crash.md", "go") {
		if !strings.Contains(string(source), snippet) {
			t.Errorf("the example does not contain this snippet:\n%s", snippet)
		}
	}
}
