package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// TestTheListOfDefectsIsThatOfTheServer compares the page with what the server
// says it restores; GOCYBORG_UPDATE=1 writes it.
func TestTheListOfDefectsIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	const page, begin, end = "cyborg-behaviour.md", "<!-- quirks: generated -->\n", "<!-- end of quirks -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	have, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no list between its marks", page)
	}
	var want strings.Builder
	for _, quirk := range fakecyborg.Quirks() {
		want.WriteString("* " + quirk + "\n")
	}
	if have == want.String() {
		return
	}
	if os.Getenv(update) != "" {
		if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the list of defects (-page +server):\n%s", cmp.Diff(have, want.String()))
}

// TestEveryTestNamedInTheBehaviourPageExists keeps its proofs true.
func TestEveryTestNamedInTheBehaviourPageExists(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("cyborg-behaviour.md")
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
