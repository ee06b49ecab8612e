package archtest

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// checkName judges the name of the package and whether it introduces itself.
func (p *pkg) checkName(rules Rules) []Finding {
	var findings []Finding
	name := p.files[0].Name.Name
	if slices.Contains(rules.BadNames, name) {
		findings = append(findings, Finding{Position: p.dir, Text: "package name " + name + " says nothing: name it by what it holds"})
	}
	documented := slices.ContainsFunc(p.files, func(f *ast.File) bool { return hasText(f.Doc) })
	switch {
	case !documented:
		findings = append(findings, Finding{Position: p.dir, Text: "package " + name + " has no package comment"})
	case !p.isMain() && !slices.Contains(p.names, "doc.go"):
		findings = append(findings, Finding{Position: p.dir, Text: "package " + name + " has no doc.go"})
	}
	return findings
}

// checkImports judges each import by the table.
func (p *pkg) checkImports(rules Rules) []Finding {
	rule, known := rules.ruleFor(p.dir)
	if !known {
		return []Finding{{Position: p.dir, Text: "package is not in the import table of the design"}}
	}
	var findings []Finding
	for _, file := range p.files {
		for _, spec := range file.Imports {
			path := importPath(spec)
			if !rules.allows(rule, path) {
				findings = append(findings, p.at(spec, "%s may not import %s", p.dir, path))
			}
		}
	}
	return findings
}

// allows reports whether a line of the table allows an import.
func (r Rules) allows(line Package, path string) bool {
	local, ours := r.local(path)
	if !ours {
		local = path
	}
	if slices.ContainsFunc(line.Never, func(pattern string) bool { return matches(pattern, local) }) {
		return false
	}
	switch {
	case ours:
		return slices.ContainsFunc(line.Ours, func(pattern string) bool { return matches(pattern, local) })
	case isStandard(path):
		return true
	default:
		return slices.ContainsFunc(line.Others, func(module string) bool {
			return path == module || strings.HasPrefix(path, module+"/")
		})
	}
}

// isStandard reports whether a path is of the standard library: no dot in its
// first segment.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func importPath(spec *ast.ImportSpec) string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser accepts only string literals
	}
	return path
}
