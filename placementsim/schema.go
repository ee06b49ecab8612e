package placementsim

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// schemas holds the compiled body schemas by name.
type schemas struct {
	compiled map[string]*jsonschema.Schema
	raw      map[string]any
}

// loadSchemas compiles the embedded files once. They are part of the program,
// so a failure is a defect that every test meets.
var loadSchemas = sync.OnceValues(func() (schemas, error) {
	s := schemas{compiled: make(map[string]*jsonschema.Schema), raw: make(map[string]any)}
	entries, err := schemaFiles.ReadDir("schemas")
	if err != nil {
		return s, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.RegisterFormat(&jsonschema.Format{Name: "uuid", Validate: checkUUIDFormat})
	compiler.AssertFormat()
	for _, entry := range entries {
		data, err := schemaFiles.ReadFile(path.Join("schemas", entry.Name()))
		if err != nil {
			return s, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return s, err
		}
		name := strings.TrimSuffix(entry.Name(), ".json")
		if err := compiler.AddResource(name, doc); err != nil {
			return s, err
		}
		if s.compiled[name], err = compiler.Compile(name); err != nil {
			return s, err
		}
		s.raw[name] = doc
	}
	return s, nil
})

var errNotUUID = errors.New("not a uuid")

func checkUUIDFormat(value any) error {
	if s, ok := value.(string); ok && !simhttp.IsUUIDLike(s) {
		return errNotUUID
	}
	return nil
}

// validate checks a value against the schema of a name. The error's text is
// that of Python's jsonschema library.
func validate(name string, value any) error {
	s, err := loadSchemas()
	if err != nil {
		return err
	}
	err = s.compiled[name].Validate(value)
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return err
	}
	return errors.New(describe(bestMatch(failed), value, s.raw[name]))
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
func describe(e *jsonschema.ValidationError, document, schema any) string {
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
	return phrase(e.ErrorKind, instance, object(lookup(schema, steps))) +
		"\n\nFailed validating " + pythonRepr(keyword(e)) + " in schema" + brackets(steps) +
		"\n\nOn instance" + brackets(e.InstanceLocation) + ":\n    " + shown(instance)
}

// maxShown is how much of a refused value an error repeats, in bytes.
const maxShown = 4096

func shown(value any) string {
	s := pythonRepr(value)
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "..."
}

func brackets(steps []string) string {
	var b strings.Builder
	for _, step := range steps {
		if _, err := strconv.Atoi(step); err != nil {
			step = pythonRepr(step)
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
		return value + " is not of type " + reprList(k.Want)
	case *kind.Format:
		return value + " is not a " + pythonRepr(k.Want)
	case *kind.Required:
		return pythonRepr(k.Missing[0]) + " is a required property"
	case *kind.AdditionalProperties:
		return extraKeys(k.Properties, object(schema["patternProperties"]))
	case *kind.MinProperties:
		return value + " does not have enough properties"
	case *kind.MinItems, *kind.MinLength:
		return value + " is too short"
	case *kind.MaxItems, *kind.MaxLength:
		return value + " is too long"
	case *kind.UniqueItems:
		return value + " has non-unique elements"
	case *kind.Pattern:
		return value + " does not match " + pythonRepr(k.Want)
	case *kind.Minimum:
		return value + " is less than the minimum of " + k.Want.RatString()
	case *kind.Maximum:
		f, _ := k.Want.Float64()
		return value + " is greater than the maximum of " + strconv.FormatFloat(f, 'g', -1, 64)
	}
	return value + " is not valid"
}

// extraKeys names keys that a closed object must not have.
func extraKeys(keys []string, patterns map[string]any) string {
	keys = slices.Sorted(slices.Values(keys))
	if len(patterns) == 0 {
		verb := " was unexpected)"
		if len(keys) > 1 {
			verb = " were unexpected)"
		}
		return "Additional properties are not allowed (" + reprList(keys) + verb
	}
	verb := " does"
	if len(keys) > 1 {
		verb = " do"
	}
	return reprList(keys) + verb + " not match any of the regexes: " + reprList(sortedKeys(patterns))
}

func reprList(list []string) string {
	shown := make([]string, 0, len(list))
	for _, item := range list {
		shown = append(shown, pythonRepr(item))
	}
	return strings.Join(shown, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
