package schema

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Set is compiled schemas by name.
type Set struct {
	library  Library
	compiled map[string]*node
	runs     sync.Pool // of *run that found nothing
}

// Load compiles the schemas DIR/NAME.json of a file system. Values of the format uuid are
// checked by isUUID. It supports the keywords that OpenStack's schemas use; others are errors.
func Load(files fs.FS, dir string, isUUID func(string) bool) (*Set, error) {
	s := &Set{compiled: make(map[string]*node)}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(files, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		doc, err := Decode(data)
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", entry.Name(), err)
		}
		if s.compiled[strings.TrimSuffix(entry.Name(), ".json")], err = (compiler{isUUID}).compile(doc); err != nil {
			return nil, fmt.Errorf("schema %s: %w", entry.Name(), err)
		}
	}
	return s, nil
}

// Library is a release of Python's jsonschema library: 19 is 4.19. Its texts say what is wrong; those of 0 are the oldest.
type Library int

const (
	// namesEmptiness is the first release with specific texts for values that must, or must not, be empty.
	namesEmptiness Library = 21
	// comparesPaths is the first release that compares paths of one length: of the parts of a value that are wrong, it reports the
	// last key or index of all, and of alternatives the first.
	comparesPaths Library = 22
	// keepsOrder is the first release that shows the keys of objects in their order, and not sorted.
	keepsOrder Library = 23
)

// In returns the set with the texts of a library.
func (s *Set) In(library Library) *Set { return &Set{library: library, compiled: s.compiled} }

// Violation is the part of a value that a schema does not allow.
type Violation struct {
	// Keyword is the keyword of the schema: "required".
	Keyword string
	// Path leads to the part: "events", "0".
	Path []string
	// Phrase says what is wrong: "'name' is a required property".
	Phrase string
	// what failed, for the text
	failed  *failure
	library Library
}

// Error implements error with the text of Python's jsonschema library: what is wrong, the
// part of the schema that is violated, and the part of the value.
func (v *Violation) Error() string {
	place := v.failed.place[:len(v.failed.place)-1]
	indented := func(text string) string { return strings.ReplaceAll(text, "\n", "\n    ") }
	p := printer{order: (*Object).sorted}
	if v.library >= keepsOrder {
		p.order = (*Object).All
	}
	return v.Phrase +
		"\n\nFailed validating " + Repr(v.Keyword) + " in schema" + brackets(place) + ":\n    " + indented(p.pretty(v.failed.node.doc)) +
		"\n\nOn instance" + brackets(v.failed.path) + ":\n    " + indented(p.prettyOf(v.failed.value))
}

// Validate checks a value of [Decode] against the schema of a name. The error is a
// *[Violation].
func (s *Set) Validate(name string, value any) error {
	n, err := s.node(name)
	if err != nil {
		return err
	}
	r, _ := s.runs.Get().(*run)
	if r == nil {
		r = &run{library: s.library, path: make([]any, 0, 8), place: make([]any, 0, 16)}
	}
	n.check(r, value)
	if r.found == nil {
		s.runs.Put(r)
		return nil
	}
	return s.newViolation(s.library.bestMatch(r.found))
}

func (s *Set) node(name string) (*node, error) {
	n := s.compiled[name]
	if n == nil {
		return nil, fmt.Errorf("there is no schema %s", name)
	}
	return n, nil
}

// newViolation returns a *Violation.
func (s *Set) newViolation(failed *failure) error {
	v := &Violation{Phrase: failed.phrase(), failed: failed, library: s.library}
	v.Keyword, _ = failed.place[len(failed.place)-1].(string)
	for _, step := range failed.path {
		v.Path = append(v.Path, fmt.Sprint(step))
	}
	return v
}

// bestMatch picks the failure to report as the Python library does: the first of those
// nearest to the root of the value that are of the wrong type. For alternatives it picks the
// least relevant failure, unless two are equally relevant.
func (l Library) bestMatch(found []*failure) *failure {
	best := found[0]
	for _, f := range found[1:] {
		if l.relevance(f, best) > 0 {
			best = f
		}
	}
	for len(best.context) > 0 {
		least := slices.SortedStableFunc(slices.Values(best.context), l.relevance)
		if len(least) > 1 && l.relevance(least[0], least[1]) == 0 {
			break
		}
		best = least[0]
	}
	return best
}

func (l Library) relevance(a, b *failure) int {
	paths := 0
	if l >= comparesPaths {
		paths = slices.CompareFunc(a.path, b.path, compareSteps)
	}
	return cmp.Or(
		len(b.path)-len(a.path),
		paths,
		compareBools(a.context == nil, b.context == nil),
		compareBools(!a.matchesType(), !b.matchesType()),
	)
}

// compareSteps compares two keys or two indexes.
func compareSteps(a, b any) int {
	if i, isIndex := a.(int); isIndex {
		j, _ := b.(int)
		return i - j
	}
	key, _ := a.(string)
	other, _ := b.(string)
	return strings.Compare(key, other)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// matchesType reports whether the value is of the type that its schema names.
func (f *failure) matchesType() bool {
	types, named := f.node.doc.Find("type")
	return named && isAnyType(f.value, typesOf(types))
}

// maxShown is how much of a refused value an error repeats, in bytes.
const maxShown = 4096

func shown(value any) string { return cut(Repr(value)) }

func cut(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "..."
}

// prettyOf is pretty for a value of any size.
func (p printer) prettyOf(value any) string {
	if line := Repr(value); len(line) > maxShown {
		return cut(line)
	}
	return p.pretty(value)
}

func brackets(steps []any) string {
	var b strings.Builder
	for _, step := range steps {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		case string:
			b.WriteString("[" + Repr(step) + "]")
		}
	}
	return b.String()
}
