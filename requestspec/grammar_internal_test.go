package requestspec

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// The grammar is written by hand for speed; Nova's expression is the judge.
func TestKeysAreReadAsNovasExpressionReadsThem(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$`)
	class, trait := regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`), regexp.MustCompile(`^[A-Z0-9_]+$`)
	key := rapid.StringMatching(`(resources|trait|resource|Trait| |)[a-zA-Z0-9_ü-]{0,3}([a-z]{60})?[:.]?(CUSTOM_|:|\n)?[A-Za-z0-9_:\n -]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		text := key.Draw(t, "key")
		got, ok := parseKey(text)
		m := form.FindStringSubmatch(text)
		if ok != (m != nil) || ok && (got != specKey{prefix: m[1], suffix: m[2], name: m[3]}) {
			t.Fatalf("%q: %+v, %t; Nova: %q", text, got, ok, m)
		}
		if validTrait(got.name) != trait.MatchString(got.name) || validClass(got.name) != (class.MatchString(got.name) || standardClasses[got.name]) {
			t.Fatalf("name %q: trait %t, class %t", got.name, validTrait(got.name), validClass(got.name))
		}
	})
}
