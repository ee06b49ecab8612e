package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// checkUnlocks finds functions that unlock what they have not locked: a lock that the caller
// holds. The caller would then see rows that others have changed.
func (p *pkg) checkUnlocks() []Finding {
	var findings []Finding
	for _, file := range p.files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if at := unlockOfCaller(f.Body); at.IsValid() {
				findings = append(findings, p.about(f, "unlock", p.dir+"."+f.Name.Name, "function %s unlocks its caller's lock", f.Name.Name))
			}
		}
	}
	return findings
}

// unlockOfCaller returns the place of an unlock that no lock of the same mutex stands before.
func unlockOfCaller(body *ast.BlockStmt) token.Pos {
	locked := make(map[string]bool)
	found := token.NoPos
	ast.Inspect(body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		mutex := types.ExprString(selector.X)
		switch kind := strings.TrimPrefix(selector.Sel.Name, "R"); {
		case kind == "Lock" || kind == "TryLock":
			locked[mutex] = true
		case kind == "Unlock" && !locked[mutex] && !found.IsValid():
			found = selector.Pos()
		}
		return true
	})
	return found
}
