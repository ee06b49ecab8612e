package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// typed is a package with the types of its expressions.
type typed struct {
	dir   string // below the module's root
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// source is a package to be checked.
type source struct {
	path  string
	files map[string][]byte // by name, below the module's root
}

// typecheck checks packages of a module, each after those that it imports. The importer has the others.
func typecheck(list []source, module string, others types.Importer) ([]*typed, error) {
	fset := token.NewFileSet()
	known := ownFirst{own: map[string]*types.Package{}, others: others}
	var packages []*typed
	for _, source := range list {
		p := &typed{dir: strings.TrimPrefix(source.path, module+"/"), fset: fset, info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		}}
		for _, name := range slices.Sorted(maps.Keys(source.files)) {
			file, err := parser.ParseFile(fset, name, source.files[name], parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("archtest: parse: %w", err)
			}
			p.files = append(p.files, file)
		}
		var err error
		p.types, err = (&types.Config{Importer: known}).Check(source.path, fset, p.files, p.info)
		if err != nil {
			return nil, fmt.Errorf("archtest: check types: %w", err)
		}
		known.own[source.path] = p.types
		packages = append(packages, p)
	}
	return packages, nil
}

// ownFirst imports the packages that were checked before, and others.
type ownFirst struct {
	own    map[string]*types.Package
	others types.Importer
}

// Import implements types.Importer.
func (f ownFirst) Import(path string) (*types.Package, error) {
	if p := f.own[path]; p != nil {
		return p, nil
	}
	return f.others.Import(path)
}

// loadTyped checks the packages of a module that match the patterns, with their imports from the module. The go command lists
// the files and compiles the other imports.
func loadTyped(root, module string, patterns ...string) ([]*typed, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("archtest: %w", err)
	}
	list := exec.Command("go", append([]string{"list", "-e", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Export"}, patterns...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("archtest: go list: %w", err)
	}
	var own []source
	compiled := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("archtest: go list: %w", err)
		}
		if !strings.HasPrefix(p.ImportPath, module+"/") {
			compiled[p.ImportPath] = p.Export
			continue
		}
		files := map[string][]byte{}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, fmt.Errorf("archtest: %w", err)
			}
			files[path.Join(strings.TrimPrefix(p.ImportPath, module+"/"), name)] = text
		}
		own = append(own, source{p.ImportPath, files})
	}
	return typecheck(own, module, importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(compiled[path])
	}))
}

// static returns the function that an expression names, without its type arguments, or nil.
func (p *typed) static(expr ast.Expr) *types.Func {
	switch e := ast.Unparen(expr).(type) {
	case *ast.Ident:
		f, _ := p.info.Uses[e].(*types.Func)
		return origin(f)
	case *ast.SelectorExpr:
		f, _ := p.info.Uses[e.Sel].(*types.Func)
		return origin(f)
	case *ast.IndexExpr:
		return p.static(e.X)
	case *ast.IndexListExpr:
		return p.static(e.X)
	}
	return nil
}

func origin(f *types.Func) *types.Func {
	if f == nil {
		return nil
	}
	return f.Origin()
}

// variable returns the variable or field that an expression names, or whose elements it names, or nil.
func (p *typed) variable(expr ast.Expr) *types.Var {
	var v *types.Var
	switch e := ast.Unparen(expr).(type) {
	case *ast.Ident:
		if v, _ = p.info.Uses[e].(*types.Var); v == nil {
			v, _ = p.info.Defs[e].(*types.Var)
		}
	case *ast.SelectorExpr:
		v, _ = p.info.Uses[e.Sel].(*types.Var)
	case *ast.IndexExpr:
		return p.variable(e.X)
	case *ast.SliceExpr:
		return p.variable(e.X)
	case *ast.StarExpr:
		return p.variable(e.X)
	case *ast.UnaryExpr:
		return p.variable(e.X)
	}
	if v == nil {
		return nil
	}
	return v.Origin()
}

// receiver returns the name of the type of a method, or "".
func receiver(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return ""
	}
	t := types.Unalias(recv.Type())
	if pointer, ok := t.(*types.Pointer); ok {
		t = types.Unalias(pointer.Elem())
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

// nameOf returns a function with its package and the type of its receiver, such as spawn.Flow.Run.
func nameOf(f *types.Func) string {
	name := f.Name()
	if of := receiver(f); of != "" {
		name = of + "." + name
	}
	if f.Pkg() != nil {
		name = f.Pkg().Name() + "." + name
	}
	return name
}

// hasFunctions reports whether a value of a type is a function, or has some as elements. The fields of a struct are not its elements.
func hasFunctions(t types.Type) bool { return t != nil && hasFunctionsWithin(t, 8) }

func hasFunctionsWithin(t types.Type, depth int) bool {
	if depth == 0 || isTypeParam(t) {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Signature:
		return true
	case interface{ Elem() types.Type }: // a pointer, slice, array, map or channel
		return hasFunctionsWithin(u.Elem(), depth-1)
	case *types.Tuple:
		for v := range u.Variables() {
			if hasFunctionsWithin(v.Type(), depth-1) {
				return true
			}
		}
	}
	return false
}

func isTypeParam(t types.Type) bool {
	_, ok := types.Unalias(t).(*types.TypeParam)
	return ok
}
