package terminal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/terminal"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, é, 日本, 🙂":       "plain, é, 日本, 🙂",
		"\x1b]0;title\a\x1b[2J": `\u001b]0;title\u0007\u001b[2J`,
		"a\r\nb\tc\x7f\x00":     `a\u000d\u000ab\u0009c\u007f\u0000`,
		"\u009b31m":             `\u009b31m`,
		"\u202etxt.exe\u2066":   `\u202etxt.exe\u2066`,
		"\u200e\u061c\u2028":    `\u200e\u061c\u2028`,
		"bad \x9b utf8":         "bad \uFFFD utf8",
		"bad \xff\x1b":          "bad \uFFFD\\u001b",
	} {
		if got := terminal.Line(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// A text is escaped equally in pieces of any size, and a JSON document keeps its meaning.
func FuzzWriter(f *testing.F) {
	for _, seed := range []string{"a\x1b[2J\n\tb", "é\u009b\u202e🙂", "\xe2\x80", "\xff\x9b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text += "." // a character at the end is complete
		var whole, pieces bytes.Buffer
		if _, err := terminal.NewWriter(&whole).Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		w := terminal.NewWriter(&pieces)
		for i := range len(text) {
			if n, err := w.Write([]byte(text[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		plain := strings.NewReplacer("\n", "", "\t", "")
		valid := string([]rune(text)) // else bytes around a line feed may make a character without it
		if got := plain.Replace(whole.String()); got != terminal.Line(got) || got != terminal.Line(plain.Replace(valid)) {
			t.Errorf("%q is written as %q", text, got)
		}
		if lossy := strings.ContainsRune(whole.String(), '\uFFFD'); !lossy && pieces.String() != whole.String() {
			t.Errorf("%q in pieces is written as %q, not %q", text, pieces.String(), whole.String())
		}
		document, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		_, _ = terminal.NewWriter(&shown).Write(document)
		var before, after string
		if json.Unmarshal(document, &before) != nil || json.Unmarshal(shown.Bytes(), &after) != nil || before != after {
			t.Errorf("%s says something else as %s", document, shown.Bytes())
		}
	})
}
