package tables_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// TestTheLastChangeIsNotLostWithItsMetaPage damages each of the two meta pages, one of them with
// the last change, after any number of changes.
func TestTheLastChangeIsNotLostWithItsMetaPage(t *testing.T) {
	t.Parallel()
	const size = 4096
	for changes := range 4 {
		k := newKept(t)
		for i := range changes {
			k.add(fmt.Sprint("more", i))
			if err := k.queue.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(k.queue.Close(), k.file.Close()); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(k.path)
		if err != nil {
			t.Fatal(err)
		}
		if os.Getpagesize() != size {
			t.Skipf("pages of %d bytes", os.Getpagesize())
		}
		page := func(data []byte, i int) []byte { return data[i*size : (i+1)*size] }
		path := filepath.Join(t.TempDir(), "damaged")
		for i := range 2 {
			for what, damage := range map[string]func([]byte){
				"zeros":              func(data []byte) { clear(page(data, i)) },
				"the other page":     func(data []byte) { copy(page(data, i), page(whole, 1-i)) },
				"another page":       func(data []byte) { copy(page(data, i), page(whole, 2)) },
				"a bit of the sum":   func(data []byte) { data[i*size+72] ^= 4 },
				"a bit of the magic": func(data []byte) { data[i*size+16] ^= 1 },
				"a bit of the root":  func(data []byte) { data[i*size+32] ^= 1 },
			} {
				data := bytes.Clone(whole)
				damage(data)
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, readOnly := range []bool{true, false} {
					_, err := tables.OpenFile(path, readOnly)
					if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprint("page ", i)) {
						t.Errorf("%d changes, page %d, %s: %v", changes, i, what, err)
					}
				}
			}
		}
	}
}

// TestAMetaPageThatIsTooOldIsRefused has the page that an earlier change wrote, as of a disk that lost two writes.
func TestAMetaPageThatIsTooOldIsRefused(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	read := func() []byte {
		if err := k.queue.Sync(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(k.path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	before := read()
	for i := range 4 {
		k.add(fmt.Sprint("more", i))
		read()
	}
	after := read()
	if err := errors.Join(k.queue.Close(), k.file.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old")
	for i := range 2 {
		data := bytes.Clone(after)
		copy(data[i*os.Getpagesize():(i+1)*os.Getpagesize()], before[i*os.Getpagesize():])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tables.OpenFile(path, true); !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), "belongs to change") {
			t.Errorf("page %d: %v", i, err)
		}
	}
}
