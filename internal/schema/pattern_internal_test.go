package schema

import (
	"regexp"
	"testing"
)

// TestPatternsMatchAsTheirExpressions: the shortcuts for the begin of a key change nothing.
func TestPatternsMatchAsTheirExpressions(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"^resources([0-9]+)?$", "^resources([0-9]+)$", "^resources([a-zA-Z0-9_-]{1,64})?$", "^(a|b)$", "^a(b)|c$", "^a.(b)?$", "a(b)?", "^[A-Z0-9_]+$", "^x(\\b)$", "",
		"^[0-9a-fA-F-]{3}$", "^r([^0-9]{2,})$", "(?i)^ab([c-d]+)$", "^((a|b){1,2})?$", "^a([0-9]{2}){1,2}$", "^a([b-c]??)+$", "^a([b-c]+?)$", "^(?:[a-c]+)??$", "^a([b-c]*)$", "^ab$", "^$", "^", "^[a-c]$",
	} {
		p, err := compilePattern(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "a", "b", "c", "ab", "a.", "A_1", "x", "x1", "resource", "resources", "resources1", "resources_X", "resources 1", "_resources", "ABC", "abcd", "a11", "a1122", "\xff\xff", "r\xff\xff", "ré€", "abc\n"} {
			if got, want := p.matches(text), regexp.MustCompile(source).MatchString(text); got != want {
				t.Errorf("%q matches %q: got %t, want %t", source, text, got, want)
			}
		}
	}
}
