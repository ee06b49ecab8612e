package collation

import (
	"iter"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/gocyborg/gocyborg/sim"
)

// Key returns the key of a text. Texts with one key are equal.
type Key func(text string) string

// Of returns the comparison of a collation; the empty collation is binary.
func Of(c sim.Collation) Key {
	if c == sim.CollationMySQL {
		return Fold
	}
	return Exact
}

// Equal reports whether two texts have the same key.
func (k Key) Equal(a, b string) bool { return a == b || k(a) == k(b) }

// HasPrefix reports whether a text begins with one that is equal to the prefix. Blanks at the end of the prefix count.
func (k Key) HasPrefix(text, prefix string) bool {
	const end = "." // no key drops it, or what is before it
	return strings.HasPrefix(k(text), strings.TrimSuffix(k(prefix+end), end))
}

// Exact compares byte by byte. It is also for what a service compares in Python on every database.
func Exact(text string) string { return text }

// Fold compares as the collations utf8mb3_uca1400_ai_ci and utf8mb4_uca1400_ai_ci, the defaults of MariaDB since 11.5, compare
// texts of Latin, Greek and Cyrillic letters: by their base letters. Characters that have no weight there, such as a zero-width
// space, are kept. A text of lower-case ASCII, as most names and all UUIDs are, is its own key, which costs no allocation.
func Fold(text string) string {
	text = strings.TrimRight(text, " ")
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return strings.TrimRight(baseLetters(text), " ")
		}
	}
	return strings.ToLower(text)
}

// baseLetters takes letters apart, drops their marks, and folds the case.
func baseLetters(text string) string {
	var b strings.Builder
	for _, whole := range norm.NFC.String(text) {
		if whole == 'й' || whole == 'Й' { // no accented и
			b.WriteRune(whole)
			continue
		}
		for _, part := range norm.NFKD.String(string(whole)) {
			switch base, ok := undecomposed[part]; {
			case ok:
				b.WriteString(base)
			case !unicode.Is(unicode.Mn, part):
				b.WriteRune(part)
			}
		}
	}
	return cases.Fold().String(b.String())
}

// undecomposed are the letters with a base that Unicode does not take apart.
var undecomposed = map[rune]string{
	'Æ': "ae", 'æ': "ae", 'Œ': "oe", 'œ': "oe", 'Ø': "o", 'ø': "o", 'Đ': "d", 'đ': "d", 'Ð': "d", 'ð': "d", 'Ł': "l", 'ł': "l",
	'Ħ': "h", 'ħ': "h", 'Ґ': "г", 'ґ': "г",
}

// Map is a map by texts. Texts with one key have one value.
type Map[V any] struct {
	key     Key
	entries map[string]V
}

// NewMap returns an empty map.
func NewMap[V any](key Key) Map[V] { return Map[V]{key, make(map[string]V)} }

// Get returns the value of a text, or the zero value.
func (m Map[V]) Get(text string) V { return m.entries[m.key(text)] }

// Set sets the value of a text.
func (m Map[V]) Set(text string, value V) { m.entries[m.key(text)] = value }

// Delete removes the value of a text.
func (m Map[V]) Delete(text string) { delete(m.entries, m.key(text)) }

// Len is the number of values.
func (m Map[V]) Len() int { return len(m.entries) }

// Values iterates over the values in no particular order.
func (m Map[V]) Values() iter.Seq[V] { return maps.Values(m.entries) }
