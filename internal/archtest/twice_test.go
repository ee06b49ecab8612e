package archtest

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// checkTwice finds exported struct and interface types that two public packages declare
// with the same name and the same fields.
func checkTwice(packages []*pkg) []Finding {
	first := make(map[string]string)
	var findings []Finding
	for _, p := range packages {
		if p.isMain() || isInternal(p.dir) {
			continue
		}
		for _, spec := range p.exportedTypes() {
			form := formOf(spec)
			if form == "" {
				continue
			}
			key := spec.Name.Name + form
			if other := first[key]; other != "" {
				findings = append(findings, p.about(spec, "twice", p.dir+"."+spec.Name.Name, "type %s is declared in %s, too", spec.Name.Name, other))
				continue
			}
			first[key] = p.dir
		}
	}
	return findings
}

// checkNouns finds nouns that two public packages of a half declare: a user of the half would meet two types of one name.
func checkNouns(packages []*pkg, rules Rules) []Finding {
	var findings []Finding
	for _, half := range rules.Halves {
		first := make(map[string]string)
		for _, p := range packages {
			of := func(pattern string) bool { return matches(pattern, p.dir) }
			if p.isMain() || isInternal(p.dir) || !slices.ContainsFunc(half, of) {
				continue
			}
			for _, spec := range p.exportedTypes() {
				name := spec.Name.Name
				switch other := first[name]; {
				case !slices.Contains(rules.Nouns, name):
				case other != "":
					findings = append(findings, p.at(spec, "%s is a type of %s, too", name, other))
				default:
					first[name] = p.dir
				}
			}
		}
	}
	return findings
}

func (p *pkg) exportedTypes() []*ast.TypeSpec {
	var specs []*ast.TypeSpec
	for _, file := range p.files {
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.IsExported() {
					specs = append(specs, t)
				}
			}
		}
	}
	return specs
}

// formOf returns the names and types of a type's fields or methods; empty for a type without any.
func formOf(spec *ast.TypeSpec) string {
	var list *ast.FieldList
	switch t := spec.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return ""
	}
	var form strings.Builder
	for _, field := range list.List {
		for _, name := range field.Names {
			form.WriteString(" " + name.Name + " " + types.ExprString(field.Type))
		}
	}
	return form.String()
}
