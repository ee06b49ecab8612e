package spelling

import (
	"slices"
	"strings"
)

// Nearest returns the known word that is most similar to word, or "" if no known word is similar.
// Spaces, case and separators are ignored.
func Nearest(word string, known []string) string {
	best, least := "", 3
	for _, candidate := range known {
		if d := Distance(Squash(word), Squash(candidate)); d < least && d*3 <= len(Squash(candidate)) {
			best, least = candidate, d
		}
	}
	return best
}

// Squash keeps the letters and digits of a word.
func Squash(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(word))
}

// Distance is the Levenshtein distance, estimated for words of very different length.
func Distance(a, b string) int {
	if abs := max(len(a), len(b)) - min(len(a), len(b)); abs > 3 {
		return abs
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
