package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/boltfile"
)

// record is a key and what is recorded for it.
type record struct{ key, value string }

// pairsOf returns what a bucket has with these records and their number, where a name of an instance has one byte.
func pairsOf(records ...record) []boltfile.Element {
	var t total
	var pairs []boltfile.Element
	for _, r := range records {
		sum, value := seal([]byte(r.key), []byte(r.value))
		t.Records, t.Sums = t.Records+1, t.Sums+uint64(sum)
		pairs = append(pairs, boltfile.Element{Key: []byte(r.key), Value: value})
	}
	data, _ := binary.Append(nil, binary.BigEndian, t)
	_, value := seal([]byte(totalKey), data)
	return slices.Concat([]boltfile.Element{{Key: []byte(totalKey), Value: value}}, pairs)
}

func TestEntries(t *testing.T) {
	numbered := func(instance string, number byte) record {
		return record{string([]byte{byte(len(instance))}) + instance + "\x00\x00\x00\x00\x00\x00\x00" + string([]byte{number}), fmt.Sprint(instance, number)}
	}
	good := pairsOf(numbered("a", 0), numbered("a", 1), numbered("b", 0))
	other := pairsOf(numbered("a", 0), numbered("a", 1), numbered("c", 0))
	for _, c := range []struct {
		name  string
		pairs []boltfile.Element
		ok    bool
	}{
		{"records", good, true},
		{"no records", pairsOf(), true},
		{"nothing", nil, false},
		{"no total", good[1:], false},
		{"a journal less", good[:3], false},
		{"another journal", append(slices.Clone(good[:3]), other[3]), false},
		{"a record that is missing", pairsOf(numbered("a", 0), numbered("a", 2)), false},
		{"the first record is missing", pairsOf(numbered("a", 1)), false},
		{"a key of another length", pairsOf(record{"\x02a" + strings.Repeat("\x00", numberLength), ""}), false},
		{"a short key", pairsOf(record{"\x01a", ""}), false},
		{"a key without an instance", pairsOf(record{strings.Repeat("\x00", 1+numberLength), ""}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries, err := content{transaction: 7, pairs: c.pairs}.entries(time.Now())
			if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v", err)
			}
			for instance, e := range entries {
				if e.abandoned.IsZero() {
					t.Errorf("the journal of %s is not abandoned", instance)
				}
			}
		})
	}
}

// TestTooShort truncates a file at each page: it opens if no page in use is missing.
func TestTooShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	f := openTest(t, path)
	j := lockTest(t, f, "i")
	for n := range 40 {
		check(t, j.Append(t.Context(), make([]byte, 100*n)))
	}
	check(t, errors.Join(j.Clear(t.Context()), j.Append(t.Context(), nil), f.Close()))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	defer file.Close()
	newest, err := boltfile.ReadMetas(file)
	check(t, err)
	info, err := file.Stat()
	check(t, err)
	for n := info.Size()/int64(newest.PageSize) - 1; n > 0; n-- {
		check(t, file.Truncate(n*int64(newest.PageSize)))
		if _, err := readContent(file); (err == nil) != (n >= int64(newest.End)) {
			t.Fatalf("%d pages of %d: %v", n, newest.End, err)
		}
	}
}

// TestWrittenSince refuses a file that another process has written between reading and opening it.
func TestWrittenSince(t *testing.T) {
	f := openTest(t, filepath.Join(t.TempDir(), "journal"))
	now, err := f.transaction()
	check(t, err)
	if err := f.begin(now - 1); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v, want ErrInUse", err)
	}
}
