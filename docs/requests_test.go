package docs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/requestspec"
)

// The findings shown are those of the flavor shown.
func TestTheLintOnThePageIsWhatTheLinterSays(t *testing.T) {
	t.Parallel()
	flavor, err := requestspec.ParseFlavorFile([]byte(snippets(t, "requests.md", "json")[0]))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, finding := range requestspec.Lint(&flavor, nil) {
		got.WriteString(finding.String() + "\n")
	}
	if diff := cmp.Diff(snippets(t, "requests.md", "text")[0], got.String()); diff != "" {
		t.Errorf("findings (-page +linter):\n%s", diff)
	}
}
