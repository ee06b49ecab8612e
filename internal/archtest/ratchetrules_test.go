package archtest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestCountsOfAPackage(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"b/doc.go": {Data: []byte("package b\n")},
		"a/a.go": {Data: []byte(`package a

import (
	"os"
	"example.org/m/b"
	"example.com/b"
)

type T struct {
	A, b bool
	C    struct{ d bool }
	e    *bool
}

type I interface{ M(bool) bool }

const K, l = 1, 2

var V bool

func F() { type local struct{ f bool } }
func (*T) M()      {}
func (hidden) N()  {}
type hidden struct { G []struct{ h bool } }
`)},
		"a/more.go":   {Data: []byte("package a\nimport _ \"example.org/m/b\"\nfunc G() {}\n")},
		"a/a_test.go": {Data: []byte("package a\nimport _ \"example.org/m/b\"\nfunc H() {}\n")},
	}
	packages, err := load(tree)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[Measure][]string)
	for m, places := range countPackages(packages, Rules{Module: "example.org/m"}) {
		got[m] = nil
		for _, p := range places {
			got[m] = append(got[m], p.Text)
		}
	}
	want := map[Measure][]string{
		{"exported", "a"}: {"T", "I", "K", "V", "F", "M", "G"},
		{"booleans", "a"}: {"A", "b", "d", "f", "h"},
		{"imports", "a"}:  {"b"},
		{"exported", "b"}: nil, {"booleans", "b"}: nil, {"imports", "b"}: nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	base := func(n int) string {
		return "\n" + strings.TrimPrefix(Bounds{{"exported", "a"}: {Base: n}}.String(), boundsHeader)
	}
	const raise, second = "exported  +2  a # users asked for it\n", "exported  +1  a # a second good reason\n"
	tests := []struct {
		name      string
		text      string
		count     int    // of exported names in package a
		finding   string // a part of the only one; empty for none
		followed  string // the text after Follow; empty for an error
		remaining string // a part of the finding after Follow
	}{
		{"at the bound", base(3), 3, "", base(3), ""},
		{"below the bound", base(3), 2, "exported in a: 2, the bound is 3: GOCYBORG_UPDATE=1 go test ./internal/archtest lowers it", base(2), ""},
		{"over the bound", base(3), 5, "add this line with a reason:\nexported  +2  a # REASON\n", base(3), "exported in a: 5, the bound is 3"},
		{"raised", base(3) + raise, 5, "", base(3) + raise, ""},
		{"over the raised bound", base(3) + raise, 6, "exported  +1  a # REASON\n", base(3) + raise, "the bound is 5"},
		{"the newest raise falls first", base(3) + raise + second, 5, "the bound is 6", base(3) + raise, ""},
		{"a part of a raise falls", base(3) + raise, 4, "the bound is 5", base(3) + strings.Replace(raise, "+2", "+1", 1), ""},
		{"a raise falls with its base", base(3) + raise, 1, "the bound is 5", base(1), ""},
		{"no bounds", "", 4, "has no bounds: restore it", "", ""},
		{"raised by hand", strings.Replace(base(3), " 3 ", " 5 ", 1), 5, `a  ` + checkSum(Measure{"exported", "a"}, 3) + `" was edited by hand`, "", ""},
		{"raised without a reason", base(3) + "exported +2 a # REASON\n", 5, "needs a reason of at least three words", "", ""},
		{"raised with half a reason", base(3) + "exported +2 a # it grew\n", 5, "needs a reason of at least three words", "", ""},
		{"raised with nothing", base(3) + "exported +2 a\n", 5, "is neither a bound nor a raise", "", ""},
		{"lowered by a raise", base(3) + "exported -2 a # it is less now\n", 1, "needs a number", "", ""},
		{"base with a reason", base(3) + "exported 2 a # it is more now\n", 1, "needs a number", "", ""},
		{"raise without a base", raise, 2, "a raise of exported in a, which has no bound", "", ""},
		{"marks of a merge", base(3) + "<<<<<<< HEAD\n", 3, "is neither a bound nor a raise", "", ""},
		{"lowered by two branches", base(4) + base(3), 3, "", base(3), ""},
		{"the same raise in two branches", base(3) + raise + raise, 5, "", base(3) + raise, ""},
		{"raises in two branches", base(3) + raise + second, 6, "", base(3) + raise + second, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			counts := Counts{{"exported", "a"}: make([]Place, tt.count)}
			bounds, err := ParseBounds(tt.text)
			if err != nil {
				if tt.followed != "" || !strings.Contains(err.Error(), tt.finding) {
					t.Errorf("error %v, want one with %q", err, tt.finding)
				}
				return
			}
			checkFinding(t, bounds.Check(fstest.MapFS{}, counts), tt.finding)
			followed := bounds.Follow(counts)
			if diff := cmp.Diff(tt.followed, "\n"+strings.TrimPrefix(followed.String(), boundsHeader)); diff != "" {
				t.Errorf("followed (-want +got):\n%s", diff)
			}
			checkFinding(t, followed.Check(fstest.MapFS{}, counts), tt.remaining)
		})
	}
}

// checkFinding compares the only finding with a part of its text, or wants none.
func checkFinding(t *testing.T, findings []Finding, part string) {
	t.Helper()
	switch {
	case part == "" && len(findings) == 0:
	case part == "" || len(findings) != 1 || !strings.Contains(findings[0].Text, part):
		t.Errorf("findings %q, want one with %q", findings, part)
	}
}

func TestBoundsOfPackagesThatComeAndGo(t *testing.T) {
	t.Parallel()
	bounds := Bounds{{"exported", "a"}: {Base: 3}, {"booleans", "a"}: {Base: 1}, {"exported", "gone"}: {Base: 2}}
	counts := Counts{{"exported", "a"}: make([]Place, 3), {"imports", "a"}: make([]Place, 7), {"exported", "new"}: make([]Place, 4)}
	want := []string{
		"there is no bound of exported in new: " + lowerBy + " adds it",
		`the line "imports a" was removed: restore it`,
		"booleans a no longer exists: " + lowerBy + " removes its line",
		"exported gone no longer exists: " + lowerBy + " removes its line",
	}
	var got []string
	for _, f := range bounds.Check(fstest.MapFS{}, counts) {
		got = append(got, f.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Bounds{{"exported", "a"}: {Base: 3}, {"exported", "new"}: {Base: 4}}, bounds.Follow(counts), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
}

func TestAFindingListsTheFilesThatChangedLastFirst(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{"old.go": {}, "new.go": {ModTime: time.Unix(1, 0)}}
	counts := Counts{{"exported", "a"}: append(slices.Repeat([]Place{{"old.go", 1, "A"}}, listed), Place{"new.go", 2, "B"})}
	findings := Bounds{{"exported", "a"}: {}}.Check(tree, counts)
	if len(findings) != 1 || !strings.Contains(findings[0].Text, "changed last:\n\tnew.go:2 B\n\told.go:1 A\n") || !strings.HasSuffix(findings[0].Text, "\n\tand 1 more") {
		t.Errorf("findings %q", findings)
	}
}

// Whatever is counted, no base and no sum grows, and what is written is read again.
func TestNoBoundGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := Measure{"booleans", "a"}
		bound := Bound{Base: rapid.IntRange(0, 9).Draw(t, "base")}
		for _, by := range rapid.SliceOfN(rapid.IntRange(1, 4), 0, 3).Draw(t, "raises") {
			bound.Raises = append(bound.Raises, Raise{by, rapid.StringMatching(`[a-z]{3} [a-z]{3} [a-z]{3}`).Draw(t, "reason")})
		}
		count := rapid.IntRange(0, 20).Draw(t, "count")
		followed := Bounds{m: bound}.Follow(Counts{m: make([]Place, count)})
		if got := followed[m]; got.Base > bound.Base || got.Sum() != min(bound.Sum(), count) || got.Base < 0 {
			t.Fatalf("%+v at %d becomes %+v", bound, count, got)
		}
		read, err := ParseBounds(followed.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(followed, read, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("read (-written +read):\n%s", diff)
		}
	})
}

func TestPhrases(t *testing.T) {
	t.Parallel()
	for _, p := range phrasesOf(t) {
		t.Run(p.Pattern, func(t *testing.T) {
			t.Parallel()
			for _, text := range []string{p.Match, strings.ToUpper(p.Match)} {
				if len(p.find(text, strings.ToLower(text))) != 1 {
					t.Errorf("no match in %q", text)
				}
			}
			if found := p.find(p.NoMatch, strings.ToLower(p.NoMatch)); len(found) != 0 {
				t.Errorf("%q in %q", found, p.NoMatch)
			}
		})
	}
}

// The literals of a pattern hide no match.
func TestLiteralsOfPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][]string{
		`\bsometimes\b`:                {"sometimes"},
		`\b(is|are) red\b`:             {" red"},
		`\b(red|dark blue)\b`:          {"red", "dark blue"},
		`\b(the|an) (other|new)\b`:     {"other", "new"},
		`\bx?\b`:                       nil,
		`\b(a|b+)\b`:                   nil,
		`\bdark red([.,;:)]|$)`:        {"dark red"},
		`\b[A-Z]+\b`:                   nil,
		`\b(Nova|Cyborg) (gives) it\b`: {"gives"},
	} {
		phrases, err := ParsePhrases(pattern + "\tx\ty")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, phrases[0].literals); diff != "" {
			t.Errorf("literals of %s (-want +got):\n%s", pattern, diff)
		}
	}
}

func TestWhereAPhraseIsFound(t *testing.T) {
	t.Parallel()
	phrases, err := ParsePhrases("# comment\n\\b(is|are) red\\b\tthere is red\tred is there\n\\bdark red([.,;:)]|$)\tnot dark red\tdark red specific\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := countPhrases(fstest.MapFS{
		"page.md": {Data: []byte("# Page\n\nThere is\n  red of\nit dark red\n\nthan\n")},
		"a/a.go": {Data: []byte("package a\n\n// F is here. There\n// are\n// RED.\n//\n// Is\nfunc red() { // is\n" +
			"\tf(\"x is\", \"red\", \"it is red\") // not dark red\n\tg(`Not dark red`)\n\t/* is\n\tred */\n}\n")},
		"a/a_test.go":     {Data: []byte("package a\n// is red\n")},
		"a/testdata/x.md": {Data: []byte("is red")}, ".x/x.md": {Data: []byte("is red")}, "a/a.txt": {Data: []byte("is red")},
	}, phrases)
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{
		{"phrases", phrases[0].Pattern}: {
			{"a/a.go", 3, "are RED"}, {"a/a.go", 9, "is red"}, {"a/a.go", 11, "is red"}, {"a/a_test.go", 2, "is red"}, {"page.md", 3, "is red"},
		},
		{"phrases", phrases[1].Pattern}: {{"a/a.go", 9, "dark red"}, {"a/a.go", 10, "dark red"}, {"page.md", 3, "dark red"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestPhrasesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a\tb": "line 1 has 2 fields", "# x\n(\tb\tc": "line 2: error parsing"} {
		if _, err := ParsePhrases(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// Branches that change the same lines merge without conflicts: both sides' lines are kept.
func TestBoundsAreMergedByUnion(t *testing.T) {
	t.Parallel()
	attributes, err := os.ReadFile("../../.gitattributes")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(attributes), boundsFile+" merge=union\n") {
		t.Errorf("%s is not merged by union:\n%s", boundsFile, attributes)
	}
}
