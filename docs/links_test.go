package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	coded   = regexp.MustCompile("`[^`\n]*`")
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unslug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are those of the headings of a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	count := 0
	err := filepath.WalkDir("..", func(page string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(page) != ".md" || strings.Contains(page, "/.ci/") {
			return err
		}
		data, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		text := coded.ReplaceAllString(fenced.ReplaceAllString(string(data), ""), "")
		for _, match := range linked.FindAllStringSubmatch(text, -1) {
			count++
			checkLink(t, page, match[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 100 {
		t.Errorf("found %d links only", count)
	}
}

func checkLink(t *testing.T, page, target string) {
	t.Helper()
	u, err := url.Parse(target)
	switch {
	case err != nil:
		t.Errorf("%s: %v", page, err)
		return
	case u.IsAbs():
		if u.Scheme != "https" || u.Host == "" {
			t.Errorf("%s: %s is no https URL", page, target)
		}
		return
	}
	file := page
	if u.Path != "" {
		file = filepath.Join(filepath.Dir(page), u.Path)
	}
	data, err := os.ReadFile(file)
	switch info, statErr := os.Stat(file); {
	case statErr != nil:
		t.Errorf("%s: %s: %v", page, target, statErr)
	case u.Fragment != "" && (info.IsDir() || err != nil || !anchors(string(data))[u.Fragment]):
		t.Errorf("%s: %s has no heading %q", page, file, u.Fragment)
	}
}
