package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exportedIdentifiers are the exported declarations of the module, without its tests: package.Name, package.Type.Method and
// package.Type.Field.
func exportedIdentifiers(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			for _, name := range declaredBy(decl) {
				found[file.Name.Name+"."+name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// declaredBy are the names of a declaration, with the methods and fields of types.
func declaredBy(decl ast.Decl) (names []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			return []string{decl.Name.Name}
		}
		receiver := decl.Recv.List[0].Type
		if pointer, ok := receiver.(*ast.StarExpr); ok {
			receiver = pointer.X
		}
		if name, ok := receiver.(*ast.Ident); ok {
			return []string{name.Name + "." + decl.Name.Name}
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
				for _, member := range membersOf(spec.Type) {
					names = append(names, spec.Name.Name+"."+member)
				}
			}
		}
	}
	return names
}

// membersOf are the fields of a struct and the methods of an interface.
func membersOf(kind ast.Expr) (names []string) {
	var list *ast.FieldList
	switch kind := kind.(type) {
	case *ast.StructType:
		list = kind.Fields
	case *ast.InterfaceType:
		list = kind.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// Each Go identifier, test, file and command that the page of the specifications names exists.
func TestTheSpecificationsPageNamesWhatExists(t *testing.T) {
	t.Parallel()
	identifier := regexp.MustCompile(`^[a-z]+\.[A-Z]\w*(\.[A-Z]\w*)?$`)
	testName := regexp.MustCompile(`^(Test|Example)\w*$`)
	file := regexp.MustCompile(`^(?:cmd|driver|examples|fakecyborg|internal|simcloud|cyborgclient)/[a-z/_.]+$`)
	declared, sources := exportedIdentifiers(t), testSources(t)
	bin, err := buildCysim()
	if err != nil {
		t.Fatal(err)
	}
	var identifiers, tests, files, commands int
	for _, code := range codeIn(t, "dev/specifications.md") {
		switch name, flag, isCommand := strings.Cut(code, " --"); {
		case identifier.MatchString(code):
			identifiers++
			if !declared[code] {
				t.Errorf("there is no %s", code)
			}
		case testName.MatchString(code):
			tests++
			if !strings.Contains(sources, "func "+code+"(") {
				t.Errorf("there is no test %s", code)
			}
		case file.MatchString(name):
			files++
			if _, err := os.Stat("../" + name); err != nil {
				t.Error(err)
			}
		case strings.HasPrefix(code, "cysim "):
			commands++
			arguments := append([]string{"help"}, strings.Fields(name)[1:]...)
			help, err := exec.CommandContext(t.Context(), filepath.Join(bin, "cysim"), arguments...).CombinedOutput()
			if err != nil || isCommand && !strings.Contains(string(help), "--"+strings.Fields(flag)[0]) {
				t.Errorf("there is no command %s: %v", code, err)
			}
		}
	}
	if identifiers < 80 || tests < 100 || files < 10 || commands < 5 {
		t.Errorf("the page names %d identifiers, %d tests, %d files and %d commands only", identifiers, tests, files, commands)
	}
}

// Each row of the page has all its cells, and a test.
func TestEveryRowOfTheSpecificationsPageIsComplete(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("dev/specifications.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 || strings.HasPrefix(line, "| in the text |") {
			continue
		}
		rows++
		empty := func(cell string) bool { return strings.TrimSpace(cell) == "" }
		if slices.ContainsFunc(cells, empty) || !strings.Contains(cells[2], "](") || !regexp.MustCompile("`(Test|Example)").MatchString(cells[3]) {
			t.Errorf("the row lacks a cell, a page or a test: %s", line)
		}
	}
	if rows < 80 {
		t.Errorf("only %d rows", rows)
	}
}
