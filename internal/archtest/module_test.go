package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Finding is one place where the source does not keep to the rules.
type Finding struct {
	// Position is file:line, or the directory of the package.
	Position string
	// Text says what is wrong and what would be right.
	Text string

	rule, subject string // as in Exception; empty for rules without exceptions
}

// String returns the finding on one line.
func (f Finding) String() string { return f.Position + ": " + f.Text }

// Check reads every Go file of the module below tree, but for tests, and
// returns where it breaks the rules, sorted by position. The error is about
// files that cannot be read or parsed.
func Check(tree fs.FS, rules Rules) ([]Finding, error) {
	packages, err := load(tree)
	if err != nil {
		return nil, err
	}
	return check(packages, rules), nil
}

func check(packages []*pkg, rules Rules) []Finding {
	var findings []Finding
	for _, p := range packages {
		findings = slices.Concat(findings, p.checkName(rules), p.checkImports(rules), p.checkState(),
			p.checkComments(), p.checkSignatures(rules), p.checkLength(rules), p.checkFields(rules),
			p.checkReceivers(), p.checkErrorResults(), p.checkUnlocks())
	}
	findings = rules.except(slices.Concat(findings, checkTwice(packages), checkNouns(packages, rules)))
	slices.SortStableFunc(findings, func(a, b Finding) int { return strings.Compare(a.Position, b.Position) })
	return findings
}

// pkg is the source of one package.
type pkg struct {
	dir   string // below the module's root, "." for the root
	fset  *token.FileSet
	names []string // base names of files
	files []*ast.File
}

func (p *pkg) add(file string, source []byte) error {
	parsed, err := parser.ParseFile(p.fset, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("archtest: parse: %w", err)
	}
	p.names = append(p.names, path.Base(file))
	p.files = append(p.files, parsed)
	return nil
}

func (p *pkg) isMain() bool { return p.files[0].Name.Name == "main" }

func (p *pkg) at(node ast.Node, format string, args ...any) Finding {
	position := p.fset.Position(node.Pos())
	return Finding{Position: fmt.Sprintf("%s:%d", position.Filename, position.Line), Text: fmt.Sprintf(format, args...)}
}

// about is at for a rule that has exceptions.
func (p *pkg) about(node ast.Node, rule, subject, format string, args ...any) Finding {
	finding := p.at(node, format, args...)
	finding.rule, finding.subject = rule, subject
	return finding
}

// load parses the packages of the module without their tests, sorted by directory.
func load(tree fs.FS) ([]*pkg, error) {
	found := make(map[string]*pkg)
	err := walk(tree, func(name string) error {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if found[dir] == nil {
			found[dir] = &pkg{dir: dir, fset: token.NewFileSet()}
		}
		return found[dir].add(name, source)
	})
	packages := slices.SortedFunc(maps.Values(found), func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return packages, err
}

// walk calls visit for each file of the module. It skips what the go command ignores: hidden files, test
// data, and modules within the module.
func walk(tree fs.FS, visit func(name string) error) error {
	return fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipDir(tree, name)
		case isIgnored(entry.Name()):
			return nil
		}
		return visit(name)
	})
}

func skipDir(tree fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	if isIgnored(base) || base == "testdata" || base == "vendor" || err == nil {
		return fs.SkipDir
	}
	return nil
}

// isIgnored reports whether the go command passes over a file or directory.
func isIgnored(base string) bool { return base[0] == '.' || base[0] == '_' }

// uses resolves the identifiers of the package as far as its own source goes;
// imported packages stay unknown.
func (p *pkg) uses() map[*ast.Ident]types.Object {
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	_, _ = config.Check(p.dir, p.fset, p.files, info) // errors about unknown imports are expected
	return info.Uses
}

// nothing is a types.Importer that knows no package.
type nothing struct{}

// Import implements types.Importer.
func (nothing) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("archtest: package %s is not looked at", path)
}
