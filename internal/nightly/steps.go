package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// limits say when a step is complete.
type limits struct {
	fuzz                               time.Duration
	suspects, tests, operations, hours int
}

// kind is the kind of a step.
type kind string

const (
	kindFuzz     kind = "fuzz"     // one fuzz target
	kindSuspects kind = "suspects" // the tests of a package that may be flaky
	kindTests    kind = "tests"    // its other tests
	kindHistory  kind = "history"  // histories that are checked for linearizability
	kindYear     kind = "year"     // a cloud in virtual time, by the period of its reports
)

// step is a unit of work that is complete or not at a commit.
type step struct {
	kind kind
	pkg  string // from the root of the module
	name string // of the fuzz target or the test of histories; "" for tests
	// pattern selects count tests; with skip it selects the tests to skip.
	pattern string
	skip    bool
	count   int
	goal    int // seconds, runs, operations or virtual hours
}

func (s step) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", s.kind, s.pkg, s.name))
}

// unit is the unit of a step's goal.
func (k kind) unit() string {
	switch k {
	case kindFuzz:
		return "s"
	case kindHistory:
		return "operations"
	}
	return "runs"
}

// testPackage is a package of the module with its test files, as this machine builds them.
type testPackage struct {
	Dir, ImportPath           string
	Module                    struct{ Path string }
	TestGoFiles, XTestGoFiles []string
}

func listPackages(ctx context.Context) ([]testPackage, error) {
	out, err := output(ctx, "go", "list", "-json=Dir,ImportPath,Module,TestGoFiles,XTestGoFiles", "./...")
	if err != nil {
		return nil, err
	}
	var packages []testPackage
	for lines := json.NewDecoder(strings.NewReader(out)); ; {
		var p testPackage
		if err := lines.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// name is the path from the root of the module.
func (p testPackage) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
}

// steps are the fuzz targets of a package, its suspects and its other tests.
func (p testPackage) steps(l limits) ([]step, error) {
	functions, err := p.functions()
	if err != nil {
		return nil, err
	}
	var steps []step
	var suspects, others []string
	for _, f := range functions {
		switch {
		case f.method:
		case isTest("Fuzz", f.name):
			steps = append(steps, step{kind: kindFuzz, pkg: p.name(), name: f.name, goal: int(l.fuzz.Seconds())})
		case isTest("Test", f.name) && f.name != "TestMain":
			if f.suspect {
				suspects = append(suspects, f.name)
			} else {
				others = append(others, f.name)
			}
		}
	}
	pattern := "^(" + strings.Join(suspects, "|") + ")$"
	if len(suspects) > 0 {
		steps = append(steps, step{kind: kindSuspects, pkg: p.name(), pattern: pattern, count: len(suspects), goal: l.suspects})
	}
	if len(others) > 0 {
		steps = append(steps, step{kind: kindTests, pkg: p.name(), pattern: pattern, skip: true, count: len(others), goal: l.tests})
	}
	return steps, nil
}

// histories are steps with a fifth of the operations each.
func histories(l limits) (steps []step) {
	for _, name := range []string{"TestHistoriesOfGenerations", "TestHistoriesOfClaims", "TestHistoriesOfReshapes", "TestHistoriesOfBinds", "TestHistoriesOverSeveralTrees"} {
		steps = append(steps, step{kind: kindHistory, pkg: "internal/linearizability", name: name, goal: l.operations / 5})
	}
	return steps
}

// years are a year with reports every hour, and three days with the real ones every minute.
func years(l limits) []step {
	return []step{
		{kind: kindYear, pkg: "cyborgclient/spawn", name: "1h", goal: l.hours},
		{kind: kindYear, pkg: "cyborgclient/spawn", name: "1m", goal: min(l.hours, 72)},
	}
}

func isTest(prefix, name string) bool {
	return strings.HasPrefix(name, prefix) && (len(name) == len(prefix) || name[len(prefix)] < 'a' || name[len(prefix)] > 'z')
}

// function is one of a package's test files.
type function struct {
	name    string
	method  bool
	suspect bool
	calls   []string // names that it mentions
}

// suspicious matches calls of tests that depend on more than the code: a test that starts
// processes, listens, sends signals, moves a clock, or is about sharing and crashes.
var suspicious = regexp.MustCompile(`^(exec\.Command(Context)?|net\.Listen(TCP)?|httptest\.New(TLS|Unstarted)?Server|syscall\.(Kill|SIG.*)|(sim\.)?NewManualClock|(simcloud\.)?WithManualClock)$`)

var suspiciousName = regexp.MustCompile(`Kill|Crash|Share|ManualClock|Race|Concurrent|Parallel`)

// functions reads the functions of the test files in order. One that calls a suspect is one.
func (p testPackage) functions() ([]*function, error) {
	var all []*function
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if decl, ok := decl.(*ast.FuncDecl); ok && decl.Body != nil {
				all = append(all, read(decl))
			}
		}
	}
	suspects := make(map[string]bool)
	for more := true; more; {
		more = false
		for _, f := range all {
			f.suspect = f.suspect || slices.ContainsFunc(f.calls, func(name string) bool { return suspects[name] })
			if f.suspect && !suspects[f.name] {
				suspects[f.name], more = true, true
			}
		}
	}
	return all, nil
}

func read(decl *ast.FuncDecl) *function {
	f := &function{name: decl.Name.Name, method: decl.Recv != nil, suspect: suspiciousName.MatchString(decl.Name.Name) && isTest("Test", decl.Name.Name)}
	ast.Inspect(decl.Body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			if x, ok := node.X.(*ast.Ident); ok && suspicious.MatchString(x.Name+"."+node.Sel.Name) {
				f.suspect = true
			}
		case *ast.Ident:
			f.suspect = f.suspect || suspicious.MatchString(node.Name)
			f.calls = append(f.calls, node.Name)
		}
		return true
	})
	return f
}

// shard returns the i-th of n parts, for "i/n".
func shard(steps []step, part string) ([]step, error) {
	var i, n int
	if _, err := fmt.Sscanf(part+"\n", "%d/%d\n", &i, &n); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("--shard %q: want i/n with i from 1 to n", part)
	}
	var mine []step
	for k, s := range steps {
		if k%n == i-1 {
			mine = append(mine, s)
		}
	}
	return mine, nil
}
