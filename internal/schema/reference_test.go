package schema_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/schema"
)

// verdict is what is reported of a value: nothing, or the keyword and the path.
type verdict struct {
	Keyword string
	Path    []string
}

// reference is the verdict of the package jsonschema.
func reference(s *jsonschema.Schema, value any) verdict {
	var failed *jsonschema.ValidationError
	if !errors.As(s.Validate(value), &failed) {
		return verdict{}
	}
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
	rank := func(e *jsonschema.ValidationError) int {
		if _, ok := e.ErrorKind.(*kind.Required); ok {
			return 0
		}
		return 1
	}
	keyword := func(e *jsonschema.ValidationError) string { return strings.Join(e.ErrorKind.KeywordPath(), "/") }
	worst := slices.MinFunc(leaves, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(len(a.InstanceLocation)-len(b.InstanceLocation), rank(a)-rank(b),
			slices.Compare(a.InstanceLocation, b.InstanceLocation), cmp.Compare(keyword(a), keyword(b)))
	})
	return verdict{keyword(worst), worst.InstanceLocation}
}

// drawValue makes up a value that mostly follows a schema.
func drawValue(t *rapid.T, doc map[string]any) any {
	if rapid.IntRange(0, 25).Draw(t, "something else") == 0 {
		return rapid.SampledFrom([]any{nil, true, "", "x", 0, -1, 1.0, 2.5, 1e300, []any{}, []any{"a", "a"}, []any{1, json.Number("1.0")}, map[string]any{}, map[string]any{"x": nil}}).Draw(t, "other")
	}
	kinds, isList := doc["type"].([]any)
	if !isList {
		kinds = []any{doc["type"]}
	}
	switch rapid.SampledFrom(kinds).Draw(t, "type") {
	case "object":
		return drawObject(t, doc)
	case "array":
		items, _ := doc["items"].(map[string]any)
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, drawValue(t, items))
		}
		return list
	case "integer", "number":
		return rapid.SampledFrom([]any{-1, 0, 1, 2, 1.5, json.Number("3.0"), 2147483647, 2147483648, 1e39}).Draw(t, "number")
	case "null":
		return nil
	}
	return rapid.SampledFrom([]string{
		"", "a", "CUSTOM_A", "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-00000000000g",
		strings.Repeat("é", 200), strings.Repeat("é", 256), "VCPU\n",
	}).Draw(t, "text")
}

func drawObject(t *rapid.T, doc map[string]any) map[string]any {
	object := map[string]any{}
	members, _ := doc["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if rapid.IntRange(0, 7).Draw(t, "has "+name) > 0 {
			object[name] = drawValue(t, members[name].(map[string]any))
		}
	}
	patterns, _ := doc["patternProperties"].(map[string]any)
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		for range rapid.IntRange(0, 2).Draw(t, "others") {
			name := rapid.SampledFrom([]string{"VCPU", "CUSTOM_A", "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-00000000000A", "00000000-0000-4000-8000-0000000000012"}).Draw(t, "name")
			object[name] = drawValue(t, patterns[pattern].(map[string]any))
		}
	}
	if additional, ok := doc["additionalProperties"].(map[string]any); ok {
		for range rapid.IntRange(0, 2).Draw(t, "additional") {
			object[rapid.SampledFrom([]string{"", "_A"}).Draw(t, "name")] = drawValue(t, additional)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "stranger") == 0 {
		object["stranger"] = 1
	}
	return object
}

func TestVerdictsAreThoseOfThePackageJSONSchema(t *testing.T) {
	t.Parallel()
	isUUID := func(text string) bool { return len(text) == 36 && strings.Trim(text, "0123456789abcdef-") == "" }
	for _, dir := range []string{"../../placementsim/schemas", "../nova/schemas"} {
		schemas, err := schema.Load(os.DirFS(dir), ".", isUUID)
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || files == nil {
			t.Fatalf("%s: no schemas, %v", dir, err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				checkVerdicts(t, schemas, file, isUUID)
			})
		}
	}
}

func checkVerdicts(t *testing.T, schemas *schema.Set, file string, isUUID func(string) bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.RegisterFormat(&jsonschema.Format{Name: "uuid", Validate: func(value any) error {
		if text, ok := value.(string); ok && !isUUID(text) {
			return fmt.Errorf("not a uuid")
		}
		return nil
	}})
	compiler.AssertFormat()
	if err := compiler.AddResource("x", doc); err != nil {
		t.Fatal(err)
	}
	want, err := compiler.Compile("x")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(drawValue(t, doc.(map[string]any)))
		if err != nil {
			t.Fatal(err)
		}
		value, err := schema.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		var got verdict
		var violation *schema.Violation
		if errors.As(schemas.Validate(name, value), &violation) {
			got = verdict{violation.Keyword, violation.Path}
		}
		equal := gocmp.Transformer("", func(path []string) string { return strings.Join(path, "/") })
		if diff := gocmp.Diff(reference(want, value), got, equal); diff != "" {
			t.Fatalf("%s: verdict (-want +got):\n%s", body, diff)
		}
	})
}
