package schema

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Set is compiled schemas by name.
type Set struct {
	compiled map[string]*jsonschema.Schema
	raw      map[string]any
}

// Load compiles the schemas DIR/NAME.json of a file system. Strings of the format uuid are
// checked by isUUID.
func Load(files fs.FS, dir string, isUUID func(string) bool) (*Set, error) {
	s := &Set{compiled: make(map[string]*jsonschema.Schema), raw: make(map[string]any)}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.RegisterFormat(&jsonschema.Format{Name: "uuid", Validate: func(value any) error {
		if text, ok := value.(string); ok && !isUUID(text) {
			return errors.New("not a uuid")
		}
		return nil
	}})
	compiler.AssertFormat()
	for _, entry := range entries {
		data, err := fs.ReadFile(files, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(entry.Name(), ".json")
		if err := compiler.AddResource(name, doc); err != nil {
			return nil, err
		}
		if s.compiled[name], err = compiler.Compile(name); err != nil {
			return nil, err
		}
		s.raw[name] = doc
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
	err := s.compiled[name].Validate(value)
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return err
	}
	return describe(bestMatch(failed), value, s.raw[name])
}

// bestMatch picks the violation to report: the one nearest to the document's
// root, as the Python library does.
func bestMatch(failed *jsonschema.ValidationError) *jsonschema.ValidationError {
	var leaves []*jsonschema.ValidationError
	var collect func(*jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			leaves = append(leaves, e)
		}
		for _, cause := range e.Causes {
			collect(cause)
		}
	}
	collect(failed)
	return slices.MinFunc(leaves, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			len(a.InstanceLocation)-len(b.InstanceLocation),
			cmp.Compare(rank(a), rank(b)),
			slices.Compare(a.InstanceLocation, b.InstanceLocation),
			cmp.Compare(keyword(a), keyword(b)),
		)
	})
}

// rank puts missing keys before unknown ones.
func rank(e *jsonschema.ValidationError) int {
	if _, ok := e.ErrorKind.(*kind.Required); ok {
		return 0
	}
	return 1
}

func keyword(e *jsonschema.ValidationError) string {
	return strings.Join(e.ErrorKind.KeywordPath(), "/")
}

// describe writes a violation: the phrase, the place in the schema and the
// place in the document.
func describe(e *jsonschema.ValidationError, document, schema any) error {
	instance := lookup(document, e.InstanceLocation)
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	if unescaped, err := url.PathUnescape(fragment); err == nil {
		fragment = unescaped
	}
	var steps []string
	for step := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		if step != "" {
			steps = append(steps, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
	}
	place, _ := lookup(schema, steps).(map[string]any)
	v := &Violation{Keyword: keyword(e), Path: e.InstanceLocation, Phrase: phrase(e.ErrorKind, instance, place)}
	v.text = v.Phrase +
		"\n\nFailed validating " + Repr(v.Keyword) + " in schema" + brackets(steps) +
		"\n\nOn instance" + brackets(e.InstanceLocation) + ":\n    " + shown(instance)
	return v
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

func lookup(value any, steps []string) any {
	for _, step := range steps {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		}
	}
	return value
}

// phrase says what is wrong in the words of Python's jsonschema library.
func phrase(k jsonschema.ErrorKind, instance any, schema map[string]any) string {
	value := shown(instance)
	switch k := k.(type) {
	case *kind.Type:
		return value + " is not of type " + ReprList(k.Want)
	case *kind.Format:
		return value + " is not a " + Repr(k.Want)
	case *kind.Required:
		return Repr(k.Missing[0]) + " is a required property"
	case *kind.AdditionalProperties:
		patterns, _ := schema["patternProperties"].(map[string]any)
		return ExtraKeys(k.Properties, patterns)
	case *kind.MinProperties:
		return value + " does not have enough properties"
	case *kind.MinItems, *kind.MinLength:
		return value + " is too short"
	case *kind.MaxItems, *kind.MaxLength:
		return value + " is too long"
	case *kind.UniqueItems:
		return value + " has non-unique elements"
	case *kind.Pattern:
		return value + " does not match " + Repr(k.Want)
	case *kind.Minimum:
		return value + " is less than the minimum of " + k.Want.RatString()
	case *kind.Maximum:
		f, _ := k.Want.Float64()
		return value + " is greater than the maximum of " + strconv.FormatFloat(f, 'g', -1, 64)
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
