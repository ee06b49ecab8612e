package store

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Kept texts of any length do not change when more texts are kept.
func TestKeptTextsStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var kept texts
		given := rapid.SliceOf(rapid.StringN(0, 5000, 5000)).Draw(t, "texts")
		got := make([]string, len(given))
		for i, text := range given {
			got[i] = kept.keep(text)
		}
		for i, text := range given {
			if got[i] != text {
				t.Fatalf("text %d is %q, want %q", i, got[i], text)
			}
		}
	})
}

func TestKeptTextsShareMemory(t *testing.T) { // AllocsPerRun is for tests that run alone
	const rows = 1000
	var kept texts
	uuid := strings.Repeat("u", 36)
	if n := testing.AllocsPerRun(1, func() {
		for range rows {
			kept.keep(uuid)
		}
	}); n > rows/50 {
		t.Errorf("%v pieces for %d texts", n, rows)
	}
}
