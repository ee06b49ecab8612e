package boltfile

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
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
			var keys []string
			err := NewPages(bytes.NewReader(data[:]), size, 12).Tree(9, func(e Element) error {
				keys = append(keys, string(e.Key))
				return nil
			})
			if (err == nil) != c.ok || err == nil && !slices.Equal(keys, slices.Concat(c.first, c.next)) {
				t.Errorf("keys %q, %v", keys, err)
			}
		})
	}
}

// TestPagesOutside refuses pages that are not in use, and meta pages.
func TestPagesOutside(t *testing.T) {
	const size, count = 64, 8
	data := make([]byte, size*count)
	for n := range count {
		binary.NativeEndian.PutUint64(data[n*size:], uint64(n))
	}
	p := NewPages(bytes.NewReader(data), size, 5)
	for n := range uint64(count) {
		if _, err := p.read(n); (err == nil) != (n >= metaPages && n < p.end) {
			t.Errorf("page %d: %v", n, err)
		}
	}
	if _, err := p.read(3); err == nil {
		t.Error("a page was read twice")
	}
}

// TestPageOfAnotherNumber refuses a page that was written for another place.
func TestPageOfAnotherNumber(t *testing.T) {
	const size = 64
	data := make([]byte, size*4)
	for _, c := range []struct {
		number uint64
		ok     bool
	}{{3, true}, {2, false}} {
		page := leafPageOf(testElement{0, "b", ""})
		binary.NativeEndian.PutUint64(page, c.number)
		copy(data[3*size:], page)
		err := NewPages(bytes.NewReader(data), size, 4).Tree(3, func(Element) error { return nil })
		if (err == nil) != c.ok {
			t.Errorf("number %d: %v", c.number, err)
		}
	}
}

// TestSmallBucket reads the page in the value of a bucket, which has no buckets.
func TestSmallBucket(t *testing.T) {
	for _, c := range []struct {
		name  string
		value string
		ok    bool
	}{
		{"a value", string(make([]byte, bucketLength)) + string(leafPageOf(testElement{0, "b", "1"})), true},
		{"a bucket", string(make([]byte, bucketLength)) + string(leafPageOf(testElement{BucketFlag, "b", "1"})), false},
		{"no page", string(make([]byte, bucketLength)), false},
		{"less than a bucket", string(make([]byte, bucketLength-1)), false},
	} {
		if err := NewPages(nil, 64, 0).Bucket([]byte(c.value), func(Element) error { return nil }); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
