package collation_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/sim"
)

// The answers of MariaDB 11.8.9 to SELECT a = b COLLATE utf8mb4_uca1400_ai_ci. With this collation the migrations of Placement 16
// make all texts, and those of Keystone 30 and Cyborg 17 theirs, or with its form for utf8mb3.
func TestFoldComparesAsMariaDB(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"GPU", "gpu", true},
		{"AAAAAAAA-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000001", true},
		{"rp1", "rp1 ", true},
		{"rp1", "rp1   ", true},
		{"", " ", true},
		{" rp1", "rp1", false},
		{"rp  1", "rp 1", false},
		{"rp1\t", "rp1", false},
		{"a-b", "ab", false},
		{"a-b", "a_b", false},
		{"rpé", "rpe", true},
		{"rpé", "RPÈ ", true},
		{"e\u0301", "é", true},
		{"ß", "ss", true},
		{"ß", "s", false},
		{"æ", "ae", true},
		{"Œ", "oe", true},
		{"ø", "o", true},
		{"Ǿ", "o", true},
		{"đ", "d", true},
		{"ð", "d", true},
		{"þ", "th", false},
		{"ł", "l", true},
		{"å", "a", true},
		{"ñ", "n", true},
		{"İ", "i", true},
		{"ı", "i", false},
		{"ﬁ", "fi", true},
		{"ＧＰＵ", "gpu", true},
		{"²", "2", true},
		{"😀", "😁", false},
		{"Ά", "α", true},
		{"ς", "Σ", true},
		{"ё", "Е", true},
		{"й", "и", false},
		{"й", "Й", true},
		{"А", "A", false}, // a Cyrillic letter and a Latin one
	} {
		if got := collation.Of(sim.CollationMySQL).Equal(tt.a, tt.b); got != tt.want {
			t.Errorf("%q = %q: got %t, want %t", tt.a, tt.b, got, tt.want)
		}
		if tt.a != tt.b && (collation.Of(sim.CollationBinary).Equal(tt.a, tt.b) || collation.Of("").Equal(tt.a, tt.b)) {
			t.Errorf("%q = %q byte by byte", tt.a, tt.b)
		}
	}
}

func TestATextEqualsItsKeyAndItsUpperCaseForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("aZ9-_ éÉßøıİςΣ"))).Draw(t, "text")
		for _, other := range []string{collation.Fold(text), text + "  ", asciiUpper(text)} {
			if !collation.Key(collation.Fold).Equal(text, other) {
				t.Fatalf("%q is not %q", text, other)
			}
		}
	})
}

func asciiUpper(text string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, text)
}

// LIKE 'prefix%' of MariaDB.
func TestBlanksOfAPrefixCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, prefix string
		want         bool
	}{
		{"CUSTOM_A", "custom_", true},
		{"CUSTOM_A", "", true},
		{"CUSTOM_A", "CUSTOM_A ", false},
		{"CUSTOM_A", "CUSTOM_Ä", true},
		{"CUSTOM_A", "CUSTOM_B", false},
	} {
		if got := collation.Key(collation.Fold).HasPrefix(tt.text, tt.prefix); got != tt.want {
			t.Errorf("%q begins with %q: got %t, want %t", tt.text, tt.prefix, got, tt.want)
		}
	}
}

func TestAKeyOfLowerCaseCostsNoAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { collation.Fold("aaaaaaaa-0000-4000-8000-000000000001") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAMapHasOneValueForEqualTexts(t *testing.T) {
	t.Parallel()
	m := collation.NewMap[int](collation.Fold)
	m.Set("GPU", 1)
	m.Set("gpu ", 2)
	if got := m.Get("Gpu"); got != 2 || m.Len() != 1 {
		t.Errorf("got %d of %d values, want 2 of one", got, m.Len())
	}
	if m.Delete("gpu"); m.Len() != 0 {
		t.Errorf("%d values, want none", m.Len())
	}
}
