package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

func load(t *testing.T, doc string) *schema.Set {
	t.Helper()
	schemas, err := schema.Load(fstest.MapFS{"s/thing.json": {Data: []byte(doc)}}, "s", uuids.Like)
	if err != nil {
		t.Fatal(err)
	}
	return schemas
}

// The files have a schema, documents, and what a release of Python's json and of jsonschema say of them. In python.json each
// document has one error or none.
func TestTextsEqualPythons(t *testing.T) {
	t.Parallel()
	for _, said := range []struct {
		file    string
		python  schema.Python
		library schema.Library
	}{{"python.json", 11, 10}, {"newest.json", 14, 26}} {
		t.Run(said.file, func(t *testing.T) {
			t.Parallel()
			compareTexts(t, said.file, said.python, said.library)
		})
	}
}

func compareTexts(t *testing.T, file string, python schema.Python, library schema.Library) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Schema json.RawMessage
		Cases  []struct{ Document, Error string }
	}
	if err := json.Unmarshal(data, &said); err != nil {
		t.Fatal(err)
	}
	schemas := load(t, string(said.Schema)).In(library)
	for _, c := range said.Cases {
		got := ""
		if value, err := python.Decode([]byte(c.Document)); err != nil {
			got = "Malformed: " + err.Error()
		} else if err := schemas.Validate("thing", value); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(c.Error, got); diff != "" {
			t.Errorf("%s (-python +ours):\n%s", c.Document, diff)
		}
	}
}

func TestViolationNamesThePart(t *testing.T) {
	t.Parallel()
	schemas := load(t, `{"properties": {"list": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}`)
	value, err := schema.Decode([]byte(`{"list": [2, 0]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got *schema.Violation
	if !errors.As(schemas.Validate("thing", value), &got) {
		t.Fatal("no violation")
	}
	if got.Keyword != "minimum" || got.Phrase != "0 is less than the minimum of 1" || !cmp.Equal(got.Path, []string{"list", "1"}) {
		t.Errorf("got %s, %q at %v", got.Keyword, got.Phrase, got.Path)
	}
	if err := schemas.Validate("other", value); err == nil || errors.As(err, &got) {
		t.Errorf("a schema that is not there: %v", err)
	}
}

// jsonschema 4.21.0 words emptiness otherwise (jsonschema/_keywords.py, minItems and the others).
func TestTextsOfEmptiness(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ keyword, document, before, since string }{
		{`"minProperties": 1`, `{}`, "{} does not have enough properties", "{} should be non-empty"},
		{`"minProperties": 2`, `{"a": 1}`, "{'a': 1} does not have enough properties", "{'a': 1} does not have enough properties"},
		{`"maxProperties": 0`, `{"a": 1}`, "{'a': 1} has too many properties", "{'a': 1} is expected to be empty"},
		{`"minItems": 1`, `[]`, "[] is too short", "[] should be non-empty"},
		{`"minItems": 2`, `[]`, "[] is too short", "[] is too short"},
		{`"maxItems": 0`, `[1]`, "[1] is too long", "[1] is expected to be empty"},
		{`"minLength": 1`, `""`, "'' is too short", "'' should be non-empty"},
		{`"maxLength": 0`, `"x"`, "'x' is too long", "'x' is expected to be empty"},
		{`"maxLength": 1`, `"xx"`, "'xx' is too long", "'xx' is too long"},
	} {
		value, err := schema.Decode([]byte(tt.document))
		if err != nil {
			t.Fatal(err)
		}
		schemas := load(t, "{"+tt.keyword+"}")
		for library, want := range map[schema.Library]string{0: tt.before, 10: tt.before, 20: tt.before, 21: tt.since, 26: tt.since} {
			var got *schema.Violation
			if !errors.As(schemas.In(library).Validate("thing", value), &got) || got.Phrase != want {
				t.Errorf("jsonschema 4.%d, %s, %s: got %v, want %s", library, tt.keyword, tt.document, got, want)
			}
		}
	}
}

func TestSchemasThatAreNotUnderstoodAreRefused(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{`{`, `[]`, `{"oneOf": []}`, `{"format": "date"}`, `{"pattern": "("}`, `{"additionalProperties": {}}`, `{"items": 5}`,
		`{"properties": {"a": 5}}`, `{"patternProperties": {"(": {}}}`, `{"anyOf": [5]}`} {
		if _, err := schema.Load(fstest.MapFS{"s/bad.json": {Data: []byte(doc)}}, "s", nil); err == nil {
			t.Errorf("%s was compiled", doc)
		}
	}
}

// What is decoded is what encoding/json decodes, which does not keep the order of keys; it
// reads bytes that are no UTF-8, and it is stricter about nothing that this decoder reads.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"b": [1, -2.5e3, true, null], "a": {"x": "\u00e9\ud83d\ude00\n"}}`, `[1e400, 99999999999999999999, -0]`, `{"a":1,"a":2}`, "[[[", `"\ud800"`, "1.", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		value, err := schema.Decode(data)
		valid := json.Valid(data)
		if err != nil {
			return
		}
		if !valid {
			t.Fatalf("%q was decoded", data)
		}
		var want any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(want), plain(value)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", data, diff)
		}
		_ = schema.Repr(value)
	})
}

// plain drops numbers, whose types differ, and the order of keys.
func plain(value any) any {
	switch v := value.(type) {
	case *schema.Object:
		m := make(map[string]any)
		for key, item := range v.All() {
			m[key] = plain(item)
		}
		return m
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
		return v
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case string, bool, nil:
		return v
	}
	return 0
}

func TestParseIntReadsWhatPythonReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1": "1", " -2\n": "-2", "+1_0": "10", "0012": "12", "\u0661\u0662": "12", "99999999999999999999": "99999999999999999999", "\x1f7\u00a0": "7",
		"": "", "-": "", "1__0": "", "_1": "", "1_": "", "1.0": "", "0x1": "", "1 0": "", "- 1": "", "+-1": "", strings.Repeat("1", 4301): "",
	} {
		n, ok := schema.ParseInt(text)
		if ok != (want != "") || ok && n.String() != want {
			t.Errorf("%q: got %v, %t, want %q", text, n, ok, want)
		}
	}
}
