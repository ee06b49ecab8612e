package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The test on the page is one that runs.
func TestTheTestingPageQuotesATest(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../simcloud/example_synctest_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, want, found := strings.Cut(string(source), "\n\nfunc ")
	if !found {
		t.Fatal("there is no test to quote")
	}
	if diff := cmp.Diff("func "+want, snippets(t, "dev/testing.md", "go")[0]); diff != "" {
		t.Errorf("the page (-test +page):\n%s", diff)
	}
}
