package archtest

import (
	"go/ast"
	"go/token"
	"slices"
)

// checkComments finds exported names without a doc comment: functions, methods
// of exported types, types, constants and variables. Fields of structs and
// methods of interfaces may have none.
func (p *pkg) checkComments() []Finding {
	var findings []Finding
	for _, file := range p.files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if isExportedFunc(decl) && !hasText(decl.Doc) {
					findings = append(findings, p.at(decl, "exported %s has no doc comment", decl.Name.Name))
				}
			case *ast.GenDecl:
				findings = append(findings, p.checkDeclComments(decl)...)
			}
		}
	}
	return findings
}

func (p *pkg) checkDeclComments(decl *ast.GenDecl) []Finding {
	var findings []Finding
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			// The comment of "type (" introduces the group, not its members.
			alone := !decl.Lparen.IsValid() && hasText(decl.Doc)
			if spec.Name.IsExported() && !alone && !hasText(spec.Doc) {
				findings = append(findings, p.at(spec, "exported type %s has no doc comment", spec.Name.Name))
			}
		case *ast.ValueSpec:
			exported := slices.IndexFunc(spec.Names, (*ast.Ident).IsExported)
			if exported >= 0 && !hasText(decl.Doc) && !hasText(spec.Doc) && !hasText(spec.Comment) {
				findings = append(findings, p.at(spec, "exported %s %s has no doc comment", decl.Tok, spec.Names[exported].Name))
			}
		}
	}
	return findings
}

// isExportedFunc reports whether users of the package can name the function.
func isExportedFunc(decl *ast.FuncDecl) bool {
	if !decl.Name.IsExported() {
		return false
	}
	if decl.Recv == nil {
		return true
	}
	receiver := receiverName(decl.Recv.List[0].Type)
	return receiver == nil || receiver.IsExported()
}

// receiverName returns the type name of a receiver such as *T or T[K].
func receiverName(expr ast.Expr) *ast.Ident {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e
	}
	return nil
}

// hasText reports whether a comment says something in addition to directives.
func hasText(group *ast.CommentGroup) bool { return group != nil && group.Text() != "" }

// checkLength finds functions over the limit. A function of one statement is a
// table in a function's clothes and may be as long as it needs.
func (p *pkg) checkLength(rules Rules) []Finding {
	var findings []Finding
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			decl, ok := node.(*ast.FuncDecl)
			if !ok || decl.Body == nil || len(decl.Body.List) == 1 {
				return true
			}
			lines := p.line(decl.End()) - p.line(decl.Pos()) + 1
			if lines > rules.MaxLines {
				findings = append(findings, p.at(decl, "function %s has %d lines, %d are allowed", decl.Name.Name, lines, rules.MaxLines))
			}
			return true
		})
	}
	return findings
}

func (p *pkg) line(pos token.Pos) int { return p.fset.Position(pos).Line }
