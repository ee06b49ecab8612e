package fakecyborg

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Writing the texts of a row for each comparison took half a minute for 80,000 deployables, and binds waited for it.
func TestSortingReadsEachRowOnce(t *testing.T) {
	t.Parallel()
	const n = 1000
	read := make(map[int]int)
	text := func(row int, key string) (string, bool) {
		read[row]++
		return number(row % 10 * len(key)), true
	}
	key, ascending := "hostname", "asc"
	rows, err := arrange(listing{"sort_key": &key, "sort_dir": &ascending}, rand.New(rand.NewPCG(1, 2)).Perm(n), text)
	settled(t, err)
	if !slices.IsSortedFunc(rows, func(a, b int) int { return a%10 - b%10 }) {
		t.Error("the rows are not sorted")
	}
	for row, times := range read {
		if times > 2 { // by the key and by the number
			t.Fatalf("the texts of row %d were read %d times", row, times)
		}
	}
}
