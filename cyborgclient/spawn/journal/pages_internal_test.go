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
)

// testElement is an element of a page that a test makes.
type testElement struct {
	flags      uint32
	key, value string
}

// leafPageOf returns a leaf page.
func leafPageOf(elements ...testElement) []byte {
	page := pageOf(leafPage, len(elements))
	for i, e := range elements {
		at := pageHeaderLength + i*elementLength
		for k, v := range []uint32{e.flags, uint32(len(page) - at), uint32(len(e.key)), uint32(len(e.value))} {
			binary.NativeEndian.PutUint32(page[at+4*k:], v)
		}
		page = append(append(page, e.key...), e.value...)
	}
	return page
}

// branchPageOf returns a branch page to pages 10, 11 and so on.
func branchPageOf(keys ...string) []byte {
	page := pageOf(branchPage, len(keys))
	for i, key := range keys {
		at := pageHeaderLength + i*elementLength
		binary.NativeEndian.PutUint32(page[at:], uint32(len(page)-at))
		binary.NativeEndian.PutUint32(page[at+4:], uint32(len(key)))
		binary.NativeEndian.PutUint64(page[at+8:], uint64(10+i))
		page = append(page, key...)
	}
	return page
}

func pageOf(kind uint16, count int) []byte {
	page := make([]byte, pageHeaderLength+count*elementLength)
	binary.NativeEndian.PutUint16(page[8:], kind)
	binary.NativeEndian.PutUint16(page[10:], uint16(count))
	return page
}

// patched returns a page with another 32-bit number at an offset.
func patched(page []byte, at int, value uint32) []byte {
	binary.NativeEndian.PutUint32(page[at:], value)
	return page
}

func TestPages(t *testing.T) {
	two := func() []byte { return leafPageOf(testElement{0, "b", "1"}, testElement{0, "d", "2"}) }
	first := pageHeaderLength // the offset of the first element
	for _, c := range []struct {
		name      string
		page      []byte
		low, high string
		ok        bool
	}{
		{"a leaf", two(), "", "", true},
		{"an empty leaf", leafPageOf(), "", "", true},
		{"a leaf from its first key on", two(), "b", "e", true},
		{"a leaf with a key below the first", two(), "c", "", false},
		{"a leaf with a key at the end", two(), "", "d", false},
		{"a leaf without order", leafPageOf(testElement{0, "d", ""}, testElement{0, "b", ""}), "", "", false},
		{"a leaf with a key twice", leafPageOf(testElement{0, "b", ""}, testElement{0, "b", ""}), "", "", false},
		{"a leaf with an empty key", leafPageOf(testElement{0, "", "1"}), "", "", false},
		{"a leaf with a key among its elements", patched(two(), first+4, 8), "", "", false},
		{"a leaf with a key outside of it", patched(two(), first+4, 1000), "", "", false},
		{"a leaf with a value beyond its end", patched(two(), first+12, 1000), "", "", false},
		{"a leaf with a very long key", patched(two(), first+8, 1<<32-1), "", "", false},
		{"a leaf with more elements than room", patched(two(), 8, leafPage|1000<<16), "", "", false},
		{"a page of another kind", patched(two(), 8, freePage|2<<16), "", "", false},
		{"less than a header", two()[:8], "", "", false},
		{"a branch", branchPageOf("b", "d"), "", "", true},
		{"a branch in bounds", branchPageOf("b", "d"), "b", "e", true},
		{"a branch below its bounds", branchPageOf("b", "d"), "c", "", false},
		{"a branch above its bounds", branchPageOf("b", "d"), "", "d", false},
		{"a branch without order", branchPageOf("d", "b"), "", "", false},
		{"a branch with an empty key", branchPageOf("", "b"), "", "", false},
		{"a branch without elements", branchPageOf(), "", "", false},
		{"a branch with a key outside of it", patched(branchPageOf("b"), first, 1000), "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bound := func(key string) []byte {
				if key == "" {
					return nil
				}
				return []byte(key)
			}
			read := func(page, low, high []byte) (err error) {
				_, err = leaf(page, low, high)
				return err
			}
			if strings.HasPrefix(c.name, "a branch") {
				read = func(page, low, high []byte) (err error) {
					_, err = branch(page, low, high)
					return err
				}
			}
			if err := read(c.page, bound(c.low), bound(c.high)); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTree refuses keys that are not below the branch where bbolt would look for them.
func TestTree(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, next []string
		ok          bool
	}{
		{"in order", []string{"b", "c"}, []string{"d", "e"}, true},
		{"later ones", []string{"bb"}, []string{"dd"}, true},
		{"before the first", []string{"a"}, []string{"d"}, false},
		{"at the next", []string{"b", "d"}, []string{"dd"}, false},
		{"before the next", []string{"b"}, []string{"c"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const size = 128
			var data [12 * size]byte
			place := func(number int, page []byte) {
				binary.NativeEndian.PutUint64(page, uint64(number))
				copy(data[number*size:], page)
			}
			leafOf := func(keys []string) []byte {
				var elements []testElement
				for _, key := range keys {
					elements = append(elements, testElement{0, key, ""})
				}
				return leafPageOf(elements...)
			}
			place(9, branchPageOf("b", "d"))
			place(10, leafOf(c.first))
			place(11, leafOf(c.next))
			p := openPages(t, data[:], size)
			elements, err := p.tree(9, nil, nil)
			if (err == nil) != c.ok || err == nil && len(elements) != len(c.first)+len(c.next) {
				t.Errorf("%d elements, %v", len(elements), err)
			}
		})
	}
}

// openPages writes a file of pages and opens it.
func openPages(t *testing.T, data []byte, size int64) *pages {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &pages{file: file, size: size, end: uint64(len(data)) / uint64(size), seen: make(map[uint64]bool)}
}

// pairsOf returns what a bucket has with these records and their number, where a name of an instance has one byte.
func pairsOf(records ...testElement) []element {
	var t total
	var pairs []element
	for _, r := range records {
		sum, value := seal([]byte(r.key), []byte(r.value))
		t.Records, t.Sums = t.Records+1, t.Sums+uint64(sum)
		pairs = append(pairs, element{r.flags, []byte(r.key), value})
	}
	data, _ := binary.Append(nil, binary.BigEndian, t)
	_, value := seal([]byte(totalKey), data)
	return slices.Concat([]element{{0, []byte(totalKey), value}}, pairs)
}

func TestEntries(t *testing.T) {
	record := func(instance string, number byte) testElement {
		return testElement{0, string([]byte{byte(len(instance))}) + instance + "\x00\x00\x00\x00\x00\x00\x00" + string([]byte{number}), fmt.Sprint(instance, number)}
	}
	good := pairsOf(record("a", 0), record("a", 1), record("b", 0))
	other := pairsOf(record("a", 0), record("a", 1), record("c", 0))
	for _, c := range []struct {
		name  string
		pairs []element
		ok    bool
	}{
		{"records", good, true},
		{"no records", pairsOf(), true},
		{"nothing", nil, false},
		{"no total", good[1:], false},
		{"a journal less", good[:3], false},
		{"another journal", append(slices.Clone(good[:3]), other[3]), false},
		{"a record that is missing", pairsOf(record("a", 0), record("a", 2)), false},
		{"the first record is missing", pairsOf(record("a", 1)), false},
		{"a key of another length", pairsOf(testElement{0, "\x02a" + strings.Repeat("\x00", numberLength), ""}), false},
		{"a short key", pairsOf(testElement{0, "\x01a", ""}), false},
		{"a key without an instance", pairsOf(testElement{0, strings.Repeat("\x00", 1+numberLength), ""}), false},
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
		if err := j.Append(t.Context(), make([]byte, 100*n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(j.Clear(t.Context()), j.Append(t.Context(), nil), f.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	newest, err := readMetas(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for n := info.Size()/int64(newest.PageSize) - 1; n > 0; n-- {
		if err := file.Truncate(n * int64(newest.PageSize)); err != nil {
			t.Fatal(err)
		}
		if _, err := readContent(file); (err == nil) != (n >= int64(newest.End)) {
			t.Fatalf("%d pages of %d: %v", n, newest.End, err)
		}
	}
}

// TestPagesOutside refuses pages that are not in use, and meta pages.
func TestPagesOutside(t *testing.T) {
	const size, count = 64, 8
	data := make([]byte, size*count)
	for n := range count {
		binary.NativeEndian.PutUint64(data[n*size:], uint64(n))
	}
	p := openPages(t, data, size)
	p.end = 5
	for n := range uint64(count) {
		if _, err := p.read(n); (err == nil) != (n >= metaPages && n < p.end) {
			t.Errorf("page %d: %v", n, err)
		}
	}
	if _, err := p.read(3); err == nil {
		t.Error("a page was read twice")
	}
}

// TestWrittenSince refuses a file that another process has written between reading and opening it.
func TestWrittenSince(t *testing.T) {
	f := openTest(t, filepath.Join(t.TempDir(), "journal"))
	now, err := f.transaction()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.begin(now - 1); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v, want ErrInUse", err)
	}
}
