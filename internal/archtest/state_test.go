package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// checkState finds package-level variables that can change. Allowed are
// sentinel errors, compiled regular expressions, schemas and templates, embedded
// files, tables that are never written, and the assertion var _ I = T{}.
func (p *pkg) checkState() []Finding {
	var findings []Finding
	tables := make(map[token.Pos]bool)
	for _, file := range p.files {
		for _, decl := range file.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				findings = append(findings, p.checkVar(vars, spec.(*ast.ValueSpec), tables)...)
			}
		}
	}
	if len(tables) == 0 {
		return findings
	}
	return append(findings, p.checkWrites(tables)...)
}

// checkVar judges one declaration by its initial values and remembers the
// names that must stay unwritten.
func (p *pkg) checkVar(decl *ast.GenDecl, spec *ast.ValueSpec, tables map[token.Pos]bool) []Finding {
	var findings []Finding
	for i, name := range spec.Names {
		if name.Name == "_" {
			continue
		}
		tables[name.Pos()] = true
		constant := len(spec.Values) == len(spec.Names) && (isError(spec.Type) || isConstantValue(spec.Values[i]))
		if !constant && !isEmbedded(decl, spec) {
			findings = append(findings, p.at(name, "package-level variable %s is mutable state: only sentinel errors, "+
				"compiled expressions, embedded files and tables that are never written may stand here", name.Name))
		}
	}
	return findings
}

// isEmbedded reports whether the variable is filled by a go:embed directive.
func isEmbedded(decl *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{decl.Doc, spec.Doc} {
		if doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
			return strings.HasPrefix(c.Text, "//go:embed ")
		}) {
			return true
		}
	}
	return false
}

// isError reports whether a variable is declared to be an error: a sentinel, of any type.
func isError(declared ast.Expr) bool {
	name, ok := declared.(*ast.Ident)
	return ok && name.Name == "error"
}

// isConstantValue reports whether an initial value makes a variable that has
// no state of its own.
func isConstantValue(value ast.Expr) bool {
	switch value := value.(type) {
	case *ast.CompositeLit:
		return isTable(value)
	case *ast.CallExpr:
		return isConstantCall(value.Fun)
	case *ast.ParenExpr:
		return isConstantValue(value.X)
	}
	return false
}

// isTable reports whether a composite literal is a table: not an empty map or
// slice that waits to be filled, and not a type that exists to change.
func isTable(literal *ast.CompositeLit) bool {
	switch t := literal.Type.(type) {
	case *ast.MapType, *ast.ArrayType:
		return len(literal.Elts) > 0
	case *ast.SelectorExpr:
		of, ok := t.X.(*ast.Ident)
		return ok && !slices.Contains([]string{"sync", "atomic", "bytes", "http", "rand"}, of.Name)
	}
	return true
}

// isConstantCall reports whether a call makes an error, a compiled expression or a
// parsed template from its literal arguments. A function named must... or
// Must... says by its name that it works on constants only.
func isConstantCall(fun ast.Expr) bool {
	switch fun := fun.(type) {
	case *ast.Ident:
		return strings.HasPrefix(fun.Name, "must")
	case *ast.SelectorExpr:
		if strings.HasPrefix(fun.Sel.Name, "Must") {
			return true
		}
		of, ok := fun.X.(*ast.Ident)
		return ok && slices.Contains([]string{
			"errors.New", "fmt.Errorf", "strings.NewReplacer", "sync.OnceValue", "sync.OnceValues",
		}, of.Name+"."+fun.Sel.Name)
	}
	return false
}

// checkWrites finds statements that change one of the package's variables.
func (p *pkg) checkWrites(tables map[token.Pos]bool) []Finding {
	uses := p.uses()
	var findings []Finding
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			for _, target := range written(node) {
				if name := root(target); name != nil && isTracked(uses[name], tables) {
					findings = append(findings, p.at(node, "package-level variable %s is written to", name.Name))
				}
			}
			return true
		})
	}
	return findings
}

func isTracked(object types.Object, tables map[token.Pos]bool) bool {
	return object != nil && tables[object.Pos()]
}

// written returns the expressions that a node assigns to, or hands out for
// assignment by taking their address.
func written(node ast.Node) []ast.Expr {
	switch node := node.(type) {
	case *ast.AssignStmt:
		if node.Tok != token.DEFINE {
			return node.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{node.X}
	case *ast.RangeStmt:
		if node.Tok == token.ASSIGN {
			return []ast.Expr{node.Key, node.Value}
		}
	case *ast.UnaryExpr:
		if node.Op == token.AND {
			return []ast.Expr{node.X}
		}
	case *ast.CallExpr:
		if fun, ok := node.Fun.(*ast.Ident); ok && len(node.Args) > 0 &&
			slices.Contains([]string{"delete", "clear", "copy"}, fun.Name) {
			return node.Args[:1]
		}
	}
	return nil
}

// root returns the variable that an assignable expression is part of.
func root(expr ast.Expr) *ast.Ident {
	for {
		switch e := expr.(type) {
		case *ast.Ident:
			return e
		case *ast.IndexExpr:
			expr = e.X
		case *ast.SliceExpr:
			expr = e.X
		case *ast.SelectorExpr:
			expr = e.X
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		default:
			return nil
		}
	}
}
