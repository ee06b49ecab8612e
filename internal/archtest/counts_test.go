package archtest

import (
	"fmt"
	"go/ast"
)

// Measure identifies a count that may fall and not grow.
type Measure struct {
	// Kind is exported, booleans, imports or phrases.
	Kind string
	// Subject is the directory of a package, or the pattern of a phrase.
	Subject string
}

// Place is one thing that a measure counts.
type Place struct {
	// File and Line are where it is.
	File string
	Line int
	// Text names it.
	Text string
}

// String returns the place on one line.
func (p Place) String() string { return fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Text) }

// Counts holds the places that each measure counts. A count of 0 has an entry, too.
type Counts map[Measure][]Place

// total returns the count of one kind in the whole module.
func (c Counts) total(kind string) int {
	total := 0
	for m, places := range c {
		if m.Kind == kind {
			total += len(places)
		}
	}
	return total
}

// countPackages counts the exported names, the boolean struct fields and the imports of this module's
// packages, for each package without its tests.
func countPackages(packages []*pkg, rules Rules) Counts {
	counts := make(Counts)
	for _, p := range packages {
		counts[Measure{"exported", p.dir}] = p.exportedNames()
		counts[Measure{"booleans", p.dir}] = p.booleanFields()
		counts[Measure{"imports", p.dir}] = p.ownImports(rules)
	}
	return counts
}

func (p *pkg) place(node ast.Node, text string) Place {
	position := p.fset.Position(node.Pos())
	return Place{position.Filename, position.Line, text}
}

// exportedNames returns the functions, the methods of exported types, the types, constants and
// variables. Fields of structs and methods of interfaces are not counted.
func (p *pkg) exportedNames() []Place {
	var places []Place
	add := func(name *ast.Ident) {
		if name.IsExported() {
			places = append(places, p.place(name, name.Name))
		}
	}
	for _, file := range p.files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if isExportedFunc(decl) {
					add(decl.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(spec.Name)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							add(name)
						}
					}
				}
			}
		}
	}
	return places
}

// booleanFields returns the fields of type bool of all struct types, including unnamed and local ones.
func (p *pkg) booleanFields() []Place {
	var places []Place
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			structure, ok := node.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range structure.Fields.List {
				if t, ok := field.Type.(*ast.Ident); ok && t.Name == "bool" {
					for _, name := range field.Names {
						places = append(places, p.place(name, name.Name))
					}
				}
			}
			return true
		})
	}
	return places
}

// ownImports returns the packages of this module that are imported, each where a file imports it first. How many files
// do does not count: else it would decide where lines go.
func (p *pkg) ownImports(rules Rules) []Place {
	var places []Place
	seen := map[string]bool{}
	for _, file := range p.files {
		for _, spec := range file.Imports {
			if local, ours := rules.local(importPath(spec)); ours && !seen[local] {
				seen[local] = true
				places = append(places, p.place(spec, local))
			}
		}
	}
	return places
}
