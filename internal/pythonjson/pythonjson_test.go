package pythonjson_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/pythonjson"
)

// The texts are those of json.dumps of Python 3.11.
func TestTextsEqualPythons(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":                 `""`,
		`a"b\c/d`:          `"a\"b\\c/d"`,
		"<&>":              `"<&>"`,
		"\b\f\n\r\t\x01":   `"\b\f\n\r\t\u0001"`,
		"\x7fé":            `"\u007f\u00e9"`,
		"\u2028\U0001f600": `"\u2028\ud83d\ude00"`,
	} {
		if got := pythonjson.Text(value); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	if got, want := pythonjson.Object(map[string]string{"b": "é", "a": "1"}), `{"a": "1", "b": "\u00e9"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
