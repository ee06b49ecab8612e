package archtest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// module holds the packages of this module.
var module = sync.OnceValues(func() ([]*pkg, error) { return load(os.DirFS("../..")) })

func TestTheModuleKeepsToItsPlan(t *testing.T) {
	t.Parallel()
	packages, err := module()
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range check(packages, Plan()) {
		t.Error(finding)
	}
}

// smallRules is a plan for the modules written in these tests.
func smallRules() Rules {
	return Rules{
		Module: "example.org/m",
		Packages: []Package{
			{Pattern: "a", Ours: []string{"b", "d/*", "e/...", "internal/i"}, Others: []string{"example.com/lib"}, Never: []string{"os", "d/never"}},
			{Pattern: "c"},
			{Pattern: "b"},
			{Pattern: "internal/i", Ours: []string{"internal/j"}},
		},
		MaxLines:   5,
		BadNames:   []string{"util"},
		Rows:       []string{"a"},
		Halves:     [][]string{{"a"}, {"b", "c"}},
		Nouns:      []string{"Noun"},
		Exceptions: []Exception{{Rule: "context", Subject: "b.Job", Reason: "a test of exceptions"}},
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		source string // of a/a.go, below "package a"
		want   []string
	}{
		{"nothing", ``, nil},
		{"import of the standard library", `import "net/http"`, nil},
		{"import that the line forbids", `import "os"`, []string{"a/a.go:2: a may not import os"}},
		{"arrow in the table", `import "example.org/m/b"`, nil},
		{"arrow by a one-segment pattern", `import "example.org/m/d/x"`, nil},
		{"arrow beyond a one-segment pattern", `import "example.org/m/d/x/y"`, []string{"a/a.go:2: a may not import example.org/m/d/x/y"}},
		{"arrow to the base of a one-segment pattern", `import "example.org/m/d"`, []string{"a/a.go:2: a may not import example.org/m/d"}},
		{"arrow that a pattern allows and the line forbids", `import "example.org/m/d/never"`, []string{"a/a.go:2: a may not import example.org/m/d/never"}},
		{"arrow by an open pattern", `import "example.org/m/e/x/y"`, nil},
		{"arrow not in the table", `import "example.org/m/c"`, []string{"a/a.go:2: a may not import example.org/m/c"}},
		{"allowed library", `import "example.com/lib/sub"`, nil},
		{"library with a similar name", `import "example.com/library"`, []string{"a/a.go:2: a may not import example.com/library"}},

		{"sentinel errors", `var err1, err2 = errors.New("x"), fmt.Errorf("y")`, nil},
		{"sentinel error of a type of its own", `var errX error = &refusal{"x"}`, nil},
		{"error without value", `var errX error`, []string{"a/a.go:2: package-level variable errX is mutable state"}},
		{"compiled expressions", `var (
			re = regexp.MustCompile("x")
			page = template.Must(template.New("x"), nil)
			schema = mustCompile("x")
		)`, nil},
		{"embedded files", "//go:embed x\nvar files embed.FS", nil},
		{"table", `var t = map[string]int{"a": 1}`, nil},
		{"interface assertion", `var _ io.Reader = (*int)(nil)`, nil},
		{"plain variable", `var n = 1`, []string{"a/a.go:2: package-level variable n is mutable state"}},
		{"variable without value", `var n int`, []string{"a/a.go:2: package-level variable n is mutable state"}},
		{"pointer", `var p = &struct{}{}`, []string{"a/a.go:2: package-level variable p is mutable state"}},
		{"lock", `var mu = sync.Mutex{}`, []string{"a/a.go:2: package-level variable mu is mutable state"}},
		{"computed value", `var v = load()`, []string{"a/a.go:2: package-level variable v is mutable state"}},
		{"several values of one call", `var v, w = mustLoad()`, []string{"a/a.go:2: package-level variable v is mutable state", "a/a.go:2: package-level variable w is mutable state"}},
		{"empty map that waits to be filled", `var registry = map[string]int{}`, []string{"a/a.go:2: package-level variable registry is mutable state"}},
		{"table written", `var t = map[string]int{"a": 1}
func f() { t["b"] = 2 }`, []string{"a/a.go:3: package-level variable t is written to"}},
		{"table written deep", `var t = []struct{ n [2]int }{{}}
func f() { (t[0]).n[1]++ }`, []string{"a/a.go:3: package-level variable t is written to"}},
		{"table replaced", `var t = []int{1}
func f() { t = append(t, 1) }`, []string{"a/a.go:3: package-level variable t is written to"}},
		{"table emptied", `var t = map[string]int{"a": 1}
func f() { delete(t, "a"); clear(t) }`, []string{"a/a.go:3: package-level variable t is written to", "a/a.go:3: package-level variable t is written to"}},
		{"table given away", `var t = [1]int{1}
func f() *int { return &t[0] }`, []string{"a/a.go:3: package-level variable t is written to"}},
		{"table written by a loop", `var t = [1]int{1}
func f() { for t[0] = range 3 {} }`, []string{"a/a.go:3: package-level variable t is written to"}},
		{"error replaced", `var errX = errors.New("x")
func f() { errX = nil }`, []string{"a/a.go:3: package-level variable errX is written to"}},
		{"local variable of the same name", `var t = []int{1}
func f() { t := []int{1}; t[0] = 2; _ = t }`, nil},
		{"table read", `var t = []int{1}
func f() int { u := t[0]; u++; return u }`, nil},

		{"documented names", `
// T is.
type T struct{ F int }
// M is.
func (T) M() {}
// Of the same kind.
const (
	A = 1
	B = 2
)
const C = 3 // beside it
type hidden struct{}
func (hidden) M() {}
func f() {}`, nil},
		{"function without comment", `func F() {}`, []string{"a/a.go:2: exported F has no doc comment"}},
		{"function with a directive only", "//go:noinline\nfunc F() {}", []string{"a/a.go:3: exported F has no doc comment"}},
		{"method without comment", "// T is.\ntype T[K any] struct{}\nfunc (*T[K]) M() {}", []string{"a/a.go:4: exported M has no doc comment"}},
		{"type without comment", `type T int`, []string{"a/a.go:2: exported type T has no doc comment"}},
		{"type in a group", "// Group.\ntype (\nT int\n)", []string{"a/a.go:4: exported type T has no doc comment"}},
		{"constant without comment", `const A = 1`, []string{"a/a.go:2: exported const A has no doc comment"}},
		{"variable without comment", `var ErrA = errors.New("a")`, []string{"a/a.go:2: exported var ErrA has no doc comment"}},

		{"internal type behind the wall", `import "example.org/m/internal/i"
// T is.
type T struct{ hidden i.X }
func f(i.X) {}
// F is.
func F() { var _ i.X }`, nil},
		{"internal type in a signature", `import "example.org/m/internal/i"
// F is.
func F(x []*i.X) {}`, []string{"a/a.go:4: exported declaration names i.X of internal/i"}},
		{"internal type in a result, renamed", `import j "example.org/m/internal/i"
// F is.
func F() (map[string]j.X, error) { return nil, nil }`, []string{"a/a.go:4: exported declaration names j.X of internal/i"}},
		{"internal type in a field", `import "example.org/m/internal/i"
// T is.
type T struct{ F i.X }`, []string{"a/a.go:4: exported declaration names i.X of internal/i"}},
		{"internal type embedded", `import "example.org/m/internal/i"
// T is.
type T struct{ i.X }`, []string{"a/a.go:4: exported declaration names i.X of internal/i"}},
		{"internal type by another name", `import "example.org/m/internal/i"
// T is.
type T = i.X`, []string{"a/a.go:4: exported declaration names i.X of internal/i"}},
		{"internal type in an interface", `import "example.org/m/internal/i"
// T is.
type T interface {
	M(i.X) // does
}`, []string{"a/a.go:5: exported declaration names i.X of internal/i"}},

		{"context in a struct", `type t struct{ ctx context.Context }`, []string{"a/a.go:2: a.t stores a context"}},
		{"mutex among tables", `type t struct{ mu *sync.RWMutex }`, []string{"a/a.go:2: a.t declares a mutex"}},
		{"map in place of a row", `type t struct{ row map[string]any }`, []string{"a/a.go:2: a.t holds a map of any"}},
		{"map of something", `type t struct{ row map[string]int }`, nil},
		{"receivers of two names", `type t int
func (a t) f() {}
func (b *t) g() {}
func (_ t) h() {}`, []string{"a/a.go:4: receiver of t is named b here and a elsewhere"}},
		{"concrete error", `type failure struct{}
func (failure) Error() string { return "" }
func f() *failure { return nil }
func g() error { return nil }`, []string{"a/a.go:4: function f returns *failure"}},
		{"lock of the caller", `func f() { mu.Unlock(); mu.Lock() }
func g() { mu.Lock(); defer mu.Unlock(); mu.Unlock(); mu.Lock() }
func h() { defer func() { s.mu.RUnlock() }() }`, []string{
			"a/a.go:2: function f unlocks its caller's lock", "a/a.go:4: function h unlocks its caller's lock",
		}},

		{"function at the limit", "func f() {\n_ = 1\n_ = 2\n_ = 3\n}", nil},
		{"function over the limit", "func f() {\n_ = 1\n_ = 2\n_ = 3\n_ = 4\n}", []string{"a/a.go:2: function f has 6 lines, 5 are allowed"}},
		{"long table", "func f() []int {\nreturn []int{\n1,\n2,\n3,\n}\n}", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{
				"a/doc.go": {Data: []byte("// Package a is.\npackage a\n")},
				"a/a.go":   {Data: []byte("package a\n" + tt.source + "\n")},
			}
			checkFindings(t, tree, tt.want)
		})
	}
}

// checkFindings compares what Check says, up to the first colon after the
// position and subject, with the beginnings wanted.
func checkFindings(t *testing.T, tree fstest.MapFS, want []string) {
	t.Helper()
	rules := smallRules()
	rules.Exceptions = nil
	findings, err := Check(tree, rules)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, finding := range findings {
		text := finding.String()
		if i < len(want) && strings.HasPrefix(text, want[i]+":") {
			text = want[i] // the advice that follows is not the point
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestFindingsAboutPackages(t *testing.T) {
	t.Parallel()
	documented := "// Package x is.\npackage x\n"
	tests := []struct {
		name string
		tree map[string]string
		want []string
	}{
		{"unknown package", map[string]string{"z/doc.go": documented}, []string{"z: package is not in the import table of the design"}},
		{"unknown package below a known one", map[string]string{"b/c/doc.go": documented}, []string{"b/c: package is not in the import table of the design"}},
		{"no package comment", map[string]string{"b/b.go": "package b"}, []string{"b: package b has no package comment"}},
		{"package comment elsewhere", map[string]string{"b/b.go": documented}, []string{"b: package x has no doc.go"}},
		{"command without doc.go", map[string]string{"b/main.go": "// B does.\npackage main"}, nil},
		{"name that says nothing", map[string]string{"b/doc.go": "// Package util is.\npackage util"}, []string{"b: package name util says nothing"}},
		{"write from another file", map[string]string{
			"b/doc.go": "// Package b is.\npackage b\nvar t = []int{1}", "b/b.go": "package b\nfunc f() { t[0] = 1 }",
		}, []string{"b/b.go:2: package-level variable t is written to"}},
		{"build tags hide nothing", map[string]string{
			"b/doc.go": documented, "b/b_windows.go": "//go:build windows\n\npackage x\nvar n int",
		}, []string{"b/b_windows.go:4: package-level variable n is mutable state"}},
		{"tests, test data, hidden directories and other modules are not read", map[string]string{
			"b/doc.go": documented, "b/b_test.go": "package x\nvar n int", "b/testdata/x.go": "garbage",
			".git/x.go": "garbage", "_old/x.go": "garbage", "b/_x.go": "garbage", "tools/go.mod": "", "tools/x.go": "garbage",
		}, nil},
		{"type that stands twice", map[string]string{
			"b/doc.go": documented + "// T is.\ntype T struct{ A, B int }",
			"a/doc.go": documented + "// T is.\ntype T struct { A, B int }\n// U is.\ntype U struct{ A int }",
		}, []string{"b/doc.go:4: type T is declared in a, too"}},
		{"noun of both halves", map[string]string{
			"b/doc.go": documented + "// Noun is.\ntype Noun struct{ A int }",
			"a/doc.go": documented + "// Noun is.\ntype Noun struct{ B int }",
		}, nil},
		{"noun of two packages of a half", map[string]string{
			"b/doc.go": documented + "// Noun is.\ntype Noun struct{ A int }",
			"c/doc.go": documented + "// Noun is.\ntype Noun struct{ B int }",
		}, []string{"c/doc.go:4: Noun is a type of b, too"}},
		{"internal types may name each other", map[string]string{
			"internal/i/doc.go": documented,
			"internal/i/i.go":   "package x\nimport \"example.org/m/internal/j\"\n// F is.\nfunc F(j.X) {}",
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{}
			for name, source := range tt.tree {
				tree[name] = &fstest.MapFile{Data: []byte(source)}
			}
			checkFindings(t, tree, tt.want)
		})
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	source := "// Package b is.\npackage b\ntype Job struct{ ctx context.Context } // Job is.\n"
	for name, tt := range map[string]struct {
		source, want string
	}{
		"one that is needed":     {source, ""},
		"one that is not needed": {"// Package b is.\npackage b\n", `b.Job: the exception from rule "context" is not needed`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findings, err := Check(fstest.MapFS{"b/doc.go": {Data: []byte(tt.source)}}, smallRules())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.String() != tt.want && !strings.Contains(f.Text, "doc comment") {
					t.Errorf("got finding %s, want %q", f, tt.want)
				}
			}
			if len(findings) == 0 && tt.want != "" {
				t.Errorf("no finding, want %s", tt.want)
			}
		})
	}
}

func TestGarbledSourceIsAnError(t *testing.T) {
	t.Parallel()
	findings, err := Check(fstest.MapFS{"b/b.go": {Data: []byte("package")}}, smallRules())
	if err == nil || !strings.Contains(err.Error(), "b/b.go") {
		t.Errorf("got %v, error %v; want an error naming b/b.go", findings, err)
	}
}

func ExampleCheck() {
	tree := fstest.MapFS{
		"b/doc.go": {Data: []byte("// Package b is an island.\npackage b\n")},
		"b/b.go":   {Data: []byte("package b\n\nimport \"example.org/m/a\"\n\nfunc Reach() { a.Touch() }\n")},
	}
	rules := Rules{Module: "example.org/m", MaxLines: 100, Packages: []Package{{Pattern: "b"}}}
	findings, err := Check(tree, rules)
	if err != nil {
		fmt.Println(err)
	}
	for _, finding := range findings {
		fmt.Println(finding)
	}
	// Output:
	// b/b.go:3: b may not import example.org/m/a
	// b/b.go:5: exported Reach has no doc comment
}
