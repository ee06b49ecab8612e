package docs_test

import (
	"os"
	"strings"
	"testing"
)

// TestEveryTestNamedInTheBehaviourPageExists keeps its proofs true.
func TestEveryTestNamedInTheBehaviourPageExists(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("dev/cyborg-behaviour.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, named := testSources(t), 0
	for i, text := range strings.Split(string(data), "`") {
		if i%2 == 0 || !strings.HasPrefix(text, "Test") {
			continue
		}
		named++
		if !strings.Contains(sources, "func "+text+"(t *testing.T)") {
			t.Errorf("there is no test %s", text)
		}
	}
	if named < 15 {
		t.Errorf("only %d tests are named", named)
	}
}
