package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Rooms divides the files of a package in two rooms: those that come after, and the others, which use nothing that is declared there.
// It is for a package whose rooms share too many unexported names to be packages.
type Rooms struct {
	Package string   // directory below the module's root
	After   []string // names of files
}

// Check returns where a file uses what is declared in the room after it, sorted by position.
func (r Rooms) Check(p *typed) []Finding {
	var findings []Finding
	for _, name := range r.After {
		if !slices.ContainsFunc(p.files, func(file *ast.File) bool { return p.fileOf(file.Pos()) == name }) {
			findings = append(findings, Finding{Position: "rules", Text: name + " does not exist"})
		}
	}
	for _, file := range p.files {
		if slices.Contains(r.After, p.fileOf(file.Pos())) {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			name, ok := node.(*ast.Ident)
			if !ok {
				return true
			}
			used := p.info.Uses[name]
			if used == nil || used.Pkg() != p.types || !slices.Contains(r.After, p.fileOf(used.Pos())) {
				return true
			}
			at := p.fset.Position(name.Pos())
			findings = append(findings, Finding{
				Position: fmt.Sprintf("%s:%d", at.Filename, at.Line),
				Text:     fmt.Sprintf("%s of %s is used: that file comes after this one", used.Name(), p.fileOf(used.Pos())),
			})
			return true
		})
	}
	return findings
}

// fileOf returns the name of the file of a position, without its directory.
func (p *typed) fileOf(at token.Pos) string { return path.Base(p.fset.Position(at).Filename) }

func TestTheFlowUsesNothingThatComesAfterIt(t *testing.T) {
	t.Parallel()
	packages, err := loadTyped("../..", Plan().Module, "./cyborgclient/...")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(packages, func(p *typed) bool { return p.dir == rooms().Package })
	if i < 0 {
		t.Fatalf("there is no package %s", rooms().Package)
	}
	for _, finding := range rooms().Check(packages[i]) {
		t.Error(finding)
	}
}

func TestRooms(t *testing.T) {
	t.Parallel()
	packages, err := typecheck([]source{{"example.org/m/flow", map[string][]byte{
		"flow/flow.go":  []byte("package flow\n\ntype Flow struct{ n int }\n\nfunc (f *Flow) Run() { f.release(); _ = limit }\n"),
		"flow/after.go": []byte("package flow\n\nconst limit = 1\n\nfunc (f *Flow) release() { f.n = limit; f.Run() }\n"),
	}}}, "example.org/m", importer.Default())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, finding := range (Rooms{Package: "flow", After: []string{"after.go", "gone.go"}}).Check(packages[0]) {
		got = append(got, finding.String())
	}
	want := []string{
		"rules: gone.go does not exist",
		"flow/flow.go:5: release of after.go is used: that file comes after this one",
		"flow/flow.go:5: limit of after.go is used: that file comes after this one",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
