package schema_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/schema"
)

func TestViolationsReadLikeThoseOfPython(t *testing.T) {
	t.Parallel()
	schemas, err := schema.Load(fstest.MapFS{"s/thing.json": {Data: []byte(`{"type": "object", "required": ["id"], "additionalProperties": false,
		"properties": {"id": {"type": "string", "format": "uuid"}, "list": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}`)}},
		"s", func(text string) bool { return text == "u" })
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"id": "u"}`:                 "",
		`{}`:                          "'id' is a required property",
		`{"id": "v"}`:                 "'v' is not a 'uuid'",
		`{"id": "u", "list": [2, 0]}`: "0 is less than the minimum of 1",
		`{"id": "u", "x": true}`:      "Additional properties are not allowed ('x' was unexpected)",
		`null`:                        "None is not of type 'object'",
	} {
		value, err := schema.Decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		var got schema.Violation
		var violation *schema.Violation
		if errors.As(schemas.Validate("thing", value), &violation) {
			got = *violation
		}
		if got.Phrase != want {
			t.Errorf("%s: %q, want %q", body, got.Phrase, want)
		}
		if body == `{"id": "u", "list": [2, 0]}` && !cmp.Equal(got.Path, []string{"list", "1"}) {
			t.Errorf("%s: at %v", body, got.Path)
		}
	}
	if _, err := schema.Load(fstest.MapFS{"s/bad.json": {Data: []byte(`{`)}}, "s", nil); err == nil {
		t.Error("a bad schema was compiled")
	}
}
