package docs_test

import (
	"os"
	"regexp"
	"testing"
)

// Each file and package that the page names is there.
func TestTheArchitecturePageNamesExistingFiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z]+(?:/[a-z0-9_]+)*(?:\\.go)?)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 40 {
		t.Fatalf("the page names %d files and packages, want 40 and more", len(named))
	}
	for _, match := range named {
		if _, err := os.Stat("../" + match[1]); err != nil {
			t.Error(err)
		}
	}
}
