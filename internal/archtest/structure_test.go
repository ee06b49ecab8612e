package archtest

import (
	"go/ast"
	"slices"
)

// checkFields finds struct fields that the design does not allow: a context; and in the
// packages of rules.Rows a mutex, or a map[string]any in place of a row.
func (p *pkg) checkFields(rules Rules) []Finding {
	rows := slices.ContainsFunc(rules.Rows, func(pattern string) bool { return matches(pattern, p.dir) })
	var findings []Finding
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range structure.Fields.List {
				if rule, text := fieldRule(field.Type, rows); rule != "" {
					subject := p.dir + "." + spec.Name.Name
					findings = append(findings, p.about(field, rule, subject, "%s %s", subject, text))
				}
			}
			return true
		})
	}
	return findings
}

// fieldRule returns the rule that a field of this type breaks.
func fieldRule(fieldType ast.Expr, rows bool) (rule, text string) {
	switch t := fieldType.(type) {
	case *ast.StarExpr:
		return fieldRule(t.X, rows)
	case *ast.SelectorExpr:
		of, _ := t.X.(*ast.Ident)
		switch {
		case of == nil:
		case of.Name == "context" && t.Sel.Name == "Context":
			return "context", "stores a context: pass it to each call"
		case rows && of.Name == "sync" && (t.Sel.Name == "Mutex" || t.Sel.Name == "RWMutex"):
			return "mutex", "declares a mutex: the tables of a service have their own"
		}
	case *ast.MapType:
		value, _ := t.Value.(*ast.Ident)
		if rows && value != nil && value.Name == "any" {
			return "row", "holds a map of any: a row is a struct"
		}
	}
	return "", ""
}

// checkReceivers finds types whose methods name the receiver differently.
func (p *pkg) checkReceivers() []Finding {
	names := make(map[string]string)
	var findings []Finding
	for _, file := range p.files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || len(f.Recv.List[0].Names) == 0 || f.Recv.List[0].Names[0].Name == "_" {
				continue
			}
			receiver := receiverName(f.Recv.List[0].Type)
			if receiver == nil {
				continue
			}
			name, first := f.Recv.List[0].Names[0].Name, names[receiver.Name]
			if first == "" {
				names[receiver.Name] = name
			} else if first != name {
				findings = append(findings, p.about(f, "receiver", p.dir+"."+receiver.Name, "receiver of %s is named %s here and %s elsewhere", receiver.Name, name, first))
			}
		}
	}
	return findings
}

// checkErrorResults finds functions that return a concrete error type: a nil pointer of
// that type is an error that is not nil.
func (p *pkg) checkErrorResults() []Finding {
	errors := p.errorTypes()
	var findings []Finding
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			f, ok := node.(*ast.FuncDecl)
			if !ok || f.Type.Results == nil {
				return true
			}
			for _, result := range f.Type.Results.List {
				pointer, ok := result.Type.(*ast.StarExpr)
				if !ok {
					continue
				}
				if name, ok := pointer.X.(*ast.Ident); ok && errors[name.Name] {
					findings = append(findings, p.about(f, "error", p.dir+"."+f.Name.Name, "function %s returns *%s: return error", f.Name.Name, name.Name))
				}
			}
			return true
		})
	}
	return findings
}

// errorTypes returns the names of the types of the package that have a method Error.
func (p *pkg) errorTypes() map[string]bool {
	types := make(map[string]bool)
	for _, file := range p.files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Error" && f.Type.Params.NumFields() == 0 {
				if receiver := receiverName(f.Recv.List[0].Type); receiver != nil {
					types[receiver.Name] = true
				}
			}
		}
	}
	return types
}
