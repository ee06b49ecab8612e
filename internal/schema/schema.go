package schema

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Set is compiled schemas by name.
type Set struct {
	roots  map[string]*node
	isUUID func(string) bool
}

// Load compiles the schemas DIR/NAME.json of a file system. Strings of the format uuid are
// checked by isUUID. A schema with a keyword that is not known here is an error.
func Load(files fs.FS, dir string, isUUID func(string) bool) (*Set, error) {
	s := &Set{roots: make(map[string]*node), isUUID: isUUID}
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
			return nil, err
		}
		if s.roots[strings.TrimSuffix(entry.Name(), ".json")], err = compile(doc, nil); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Violation is the part of a value that a schema does not allow.
type Violation struct {
	// Keyword is that of the schema: "required".
	Keyword string
	// Path leads to the part: "events", "0".
	Path []string
	// Phrase says what is wrong: "'name' is a required property".
	Phrase string
	text   string
}

// Error implements error with the text of Python's jsonschema library.
func (v *Violation) Error() string { return v.text }

// Validate checks a value of [Decode] against the schema of a name. The error is a
// *[Violation].
func (s *Set) Validate(name string, value any) error {
	c := checker{isUUID: s.isUUID}
	c.check(s.roots[name], value)
	if c.worst == nil {
		return nil
	}
	return c.worst.describe()
}

// violation is a Violation without its words.
type violation struct {
	node    *node
	keyword string
	path    []string
	value   any
	names   []string // the missing or unknown members
}

// compare orders violations as the Python library does to report one: that nearest to the
// document's root, and missing members before unknown ones.
func (v *violation) compare(w *violation) int {
	rank := func(v *violation) int {
		if v.keyword == keywordRequired {
			return 0
		}
		return 1
	}
	return cmp.Or(
		len(v.path)-len(w.path),
		rank(v)-rank(w),
		slices.Compare(v.path, w.path),
		cmp.Compare(v.keyword, w.keyword),
	)
}

// describe writes a violation: the phrase, the place in the schema and the place in the
// document.
func (v *violation) describe() error {
	phrase := v.phrase()
	return &Violation{
		Keyword: v.keyword, Path: v.path, Phrase: phrase,
		text: phrase + "\n\nFailed validating " + Repr(v.keyword) + " in schema" + brackets(v.node.place) +
			"\n\nOn instance" + brackets(v.path) + ":\n    " + shown(v.value),
	}
}

// maxShown is how much of a refused value an error repeats, in bytes.
const maxShown = 4096

func shown(value any) string {
	s := Repr(value)
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "..."
}

func brackets(steps []string) string {
	var b strings.Builder
	for _, step := range steps {
		if _, err := strconv.Atoi(step); err != nil {
			step = Repr(step)
		}
		b.WriteString("[" + step + "]")
	}
	return b.String()
}

// phrase says what is wrong in the words of Python's jsonschema library.
func (v *violation) phrase() string {
	value, want := shown(v.value), v.node.keywords[v.keyword]
	switch v.keyword {
	case keywordType:
		return value + " is not of type " + ReprList(v.node.types)
	case keywordFormat:
		return value + " is not a " + Repr(want)
	case keywordRequired:
		return Repr(v.names[0]) + " is a required property"
	case keywordAdditional:
		patterns, _ := v.node.keywords[keywordPatterns].(map[string]any)
		return ExtraKeys(v.names, patterns)
	case keywordMinProperties:
		return value + " does not have enough properties"
	case keywordMinItems, keywordMinLength:
		return value + " is too short"
	case keywordMaxLength:
		return value + " is too long"
	case keywordUnique:
		return value + " has non-unique elements"
	case keywordPattern:
		return value + " does not match " + Repr(want)
	case keywordMinimum:
		return value + " is less than the minimum of " + Repr(want)
	case keywordMaximum:
		return value + " is greater than the maximum of " + Repr(want)
	}
	return value + " is not valid"
}

// ExtraKeys names keys that a closed object must not have, beside those that match the
// patterns.
func ExtraKeys(keys []string, patterns map[string]any) string {
	keys = slices.Sorted(slices.Values(keys))
	if len(patterns) == 0 {
		verb := " was unexpected)"
		if len(keys) > 1 {
			verb = " were unexpected)"
		}
		return "Additional properties are not allowed (" + ReprList(keys) + verb
	}
	verb := " does"
	if len(keys) > 1 {
		verb = " do"
	}
	return ReprList(keys) + verb + " not match any of the regexes: " + ReprList(slices.Sorted(maps.Keys(patterns)))
}
