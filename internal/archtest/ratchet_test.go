package archtest

import (
	"maps"
	"os"
	"testing"
)

const update = "GOCYBORG_UPDATE"

// TestTheCountsOfTheModuleOnlyFall compares exported names, boolean fields, imports and phrases with
// testdata/ratchet.txt, and lowers the bounds with GOCYBORG_UPDATE=1.
func TestTheCountsOfTheModuleOnlyFall(t *testing.T) {
	t.Parallel()
	tree := os.DirFS("../..")
	packages, err := module()
	if err != nil {
		t.Fatal(err)
	}
	counts, err := countPhrases(tree, phrasesOf(t))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(counts, countPackages(packages, Plan()))
	for _, kind := range []string{"exported", "booleans", "imports", "phrases"} {
		t.Logf("%s in the module: %d", kind, counts.total(kind))
	}

	text, err := os.ReadFile("../../" + boundsFile)
	if err != nil {
		t.Fatal(err)
	}
	bounds, err := ParseBounds(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(update) != "" {
		followed := bounds.Follow(counts)
		if err := os.WriteFile("../../"+boundsFile, []byte(followed.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		bounds, text = followed, []byte(followed.String())
	}
	for _, finding := range bounds.Check(tree, counts) {
		t.Error(finding)
	}
	if bounds.String() != string(text) {
		t.Errorf("%s is not as it is written: %s sorts it", boundsFile, lowerBy)
	}
}

func phrasesOf(t *testing.T) []Phrase {
	t.Helper()
	data, err := os.ReadFile("testdata/phrases.txt")
	if err != nil {
		t.Fatal(err)
	}
	phrases, err := ParsePhrases(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return phrases
}
