package fakecyborg

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// releaseTable is the table of what the releases do differently.
func releaseTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| behaviour |")
	for _, r := range releases() {
		fmt.Fprintf(&b, " `%s` |", r)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(releases())) + "\n")
	for i := range reflect.TypeFor[release]().NumField() {
		field := reflect.TypeFor[release]().Field(i)
		if field.Tag.Get("doc") == "" {
			t.Errorf("%s has no row", field.Name)
		}
		fmt.Fprintf(&b, "| %s |", field.Tag.Get("doc"))
		values := make(map[any]bool)
		for _, r := range releases() {
			value := reflect.ValueOf(r.traits()).Field(i).Interface()
			values[value] = true
			fmt.Fprintf(&b, " %s |", strings.NewReplacer("true", "yes", "false", "no").Replace(fmt.Sprint(value)))
		}
		if len(values) == 1 {
			t.Errorf("%s is the same in all releases", field.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestTheTableOfReleasesIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- releases: generated -->\n", "<!-- end of releases -->\n"
	file := filepath.Join("..", "docs", "cyborg-behaviour.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", file, begin, end)
	}
	want := releaseTable(t)
	if os.Getenv("GOCYBORG_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got); GOCYBORG_UPDATE=1 go test ./fakecyborg writes it:\n%s", file, diff)
	}
}

// A comparison of releases outside of the table would be missing in it.
func TestOnlyTheTableComparesReleases(t *testing.T) {
	t.Parallel()
	compares := regexp.MustCompile(`[=!]= *Release[A-Z0-9]|case Release[A-Z0-9]|\.Release *[=!]=`)
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "release.go" {
			return err
		}
		data, err := os.ReadFile(path)
		if found := compares.Find(data); found != nil {
			t.Errorf("%s has %q", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
