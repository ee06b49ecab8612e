package archtest

import "strings"

// Rules is what a module is held to.
type Rules struct {
	// Module is the module's path.
	Module string
	// Packages is the import table. A package that is not in it is a finding.
	Packages []Package
	// MaxLines is the length of the longest function allowed, in lines.
	MaxLines int
	// BadNames are package names that say nothing about their content.
	BadNames []string
	// Rows are the packages, as patterns, whose state is tables: they declare no mutex and no map
	// in place of a row.
	Rows []string
	// Halves are patterns of the packages of each half of the module.
	Halves [][]string
	// Nouns are names of types that the public packages of a half declare once.
	Nouns []string
	// Exceptions are the findings that may stand.
	Exceptions []Exception
}

// Package is one line of the import table. Patterns are paths below the
// module's root; a last segment "*" matches one segment, "..." any number.
type Package struct {
	// Pattern names the package or packages of this line; the first line that
	// matches a package counts.
	Pattern string
	// Ours are the packages of this module it may import, as patterns.
	Ours []string
	// Others are the third-party modules it may import, packages below
	// included. The standard library is always allowed, but for Never.
	Others []string
	// Never are packages it may not import although the rest of the line
	// allows them: patterns of this module, or full import paths.
	Never []string
}

// ruleFor returns the line of the table for a package.
func (r Rules) ruleFor(dir string) (Package, bool) {
	for _, line := range r.Packages {
		if matches(line.Pattern, dir) {
			return line, true
		}
	}
	return Package{}, false
}

// local returns the path below the module's root of an import path of this
// module.
func (r Rules) local(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, r.Module+"/")
}

// matches reports whether a pattern matches a package path.
func matches(pattern, path string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	if base, ok := strings.CutSuffix(pattern, "/*"); ok {
		rest, below := strings.CutPrefix(path, base+"/")
		return below && rest != "" && !strings.Contains(rest, "/")
	}
	return pattern == path
}

// isInternal reports whether an import path or directory can only be imported
// from inside the module.
func isInternal(path string) bool {
	return strings.Contains("/"+path+"/", "/internal/")
}
