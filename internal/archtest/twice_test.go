package archtest

import (
	"go/ast"
	"go/types"
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

// formOf returns the names and types of a type's fields or methods; empty for a type that
// has none.
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
