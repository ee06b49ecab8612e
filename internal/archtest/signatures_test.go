package archtest

import (
	"go/ast"
	"path"
	"slices"
)

// checkSignatures finds internal types in what a public package exports: its
// users could not name them.
func (p *pkg) checkSignatures(rules Rules) []Finding {
	if isInternal(p.dir) || p.isMain() {
		return nil
	}
	var findings []Finding
	for _, file := range p.files {
		internal := internalImports(file, rules)
		if len(internal) == 0 {
			continue
		}
		for _, part := range exportedParts(file) {
			ast.Inspect(part, func(node ast.Node) bool {
				selector, ok := node.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if of, ok := selector.X.(*ast.Ident); ok && internal[of.Name] != "" {
					findings = append(findings, p.at(selector, "exported declaration names %s.%s of %s", of.Name, selector.Sel.Name, internal[of.Name]))
				}
				return true
			})
		}
	}
	return findings
}

// internalImports returns the internal packages of this module that a file
// imports, by the name they have in the file.
func internalImports(file *ast.File, rules Rules) map[string]string {
	internal := make(map[string]string)
	for _, spec := range file.Imports {
		local, ours := rules.local(importPath(spec))
		if !ours || !isInternal(local) {
			continue
		}
		name := path.Base(local)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		internal[name] = local
	}
	return internal
}

// exportedParts returns the parts of a file that users of the package see:
// signatures, and declarations without unexported fields and function bodies.
func exportedParts(file *ast.File) []ast.Node {
	var parts []ast.Node
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if isExportedFunc(decl) {
				parts = append(parts, decl.Type)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				parts = append(parts, exportedSpec(spec)...)
			}
		}
	}
	return parts
}

func exportedSpec(spec ast.Spec) []ast.Node {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return nil
		}
		if structure, ok := spec.Type.(*ast.StructType); ok {
			return exportedFields(structure)
		}
		return []ast.Node{spec.Type}
	case *ast.ValueSpec:
		if spec.Type != nil && spec.Names[0].IsExported() {
			return []ast.Node{spec.Type}
		}
	}
	return nil
}

func exportedFields(structure *ast.StructType) []ast.Node {
	var parts []ast.Node
	for _, field := range structure.Fields.List {
		embedded := len(field.Names) == 0
		if embedded || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			parts = append(parts, field.Type)
		}
	}
	return parts
}
