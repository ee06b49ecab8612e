package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/internal/testrun"
)

// contents returns the unfinished journals of a store.
func contents(t testing.TB, store journal.Store) map[string][]string {
	t.Helper()
	instances, err := store.Unfinished(t.Context())
	check(t, err)
	all := make(map[string][]string)
	for _, instance := range instances {
		j := lock(t, store, instance)
		for _, r := range j.Records() {
			all[instance] = append(all[instance], string(r))
		}
		j.Release()
	}
	return all
}

// writeRandom writes a file with pages of each kind, in use and free, and returns what is in it.
func writeRandom(t testing.TB, path string, seed uint64) map[string][]string {
	t.Helper()
	f := open(t, path)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range 60 {
		j := lock(t, f, fmt.Sprint("instance ", n%40))
		for range 8 {
			add(t, j, strings.Repeat(fmt.Sprint(random.Uint64(), " "), random.IntN(30)))
		}
		if n%7 == 0 {
			add(t, j, strings.Repeat("large ", 5000))
		}
		if n%5 == 0 {
			check(t, j.Clear(t.Context()))
		}
		j.Release()
	}
	all := contents(t, f)
	closeFile(t, f)
	return all
}

// TestDamaged opens files that were changed at random places. Each opens with all records, or does not open.
func TestDamaged(t *testing.T) {
	const pageSize = 4096
	path := filepath.Join(t.TempDir(), "journal")
	want := writeRandom(t, path, 1)
	whole, err := os.ReadFile(path)
	check(t, err)
	pages := len(whole) / pageSize
	page := func(random *rand.Rand, data []byte) []byte {
		at := random.IntN(pages) * pageSize
		return data[at : at+pageSize]
	}
	fill := func(random *rand.Rand, data []byte) {
		for i := range data {
			data[i] = byte(random.Uint32())
		}
	}
	damages := []struct {
		name string
		do   func(*rand.Rand, []byte) []byte
	}{
		{"truncated", func(r *rand.Rand, d []byte) []byte { return d[:r.IntN(len(d))] }},
		{"truncated to pages", func(r *rand.Rand, d []byte) []byte { return d[:r.IntN(pages)*pageSize] }},
		{"a bit", func(r *rand.Rand, d []byte) []byte { d[r.IntN(len(d))] ^= 1 << r.IntN(8); return d }},
		{"a bit of a header", func(r *rand.Rand, d []byte) []byte { page(r, d)[r.IntN(16)] ^= 1 << r.IntN(8); return d }},
		{"a bit of the elements", func(r *rand.Rand, d []byte) []byte { page(r, d)[r.IntN(200)] ^= 1 << r.IntN(8); return d }},
		{"a small header", func(r *rand.Rand, d []byte) []byte { page(r, d)[8+r.IntN(8)] = byte(r.IntN(4)); return d }},
		{"a small number", func(r *rand.Rand, d []byte) []byte {
			at := page(r, d)[4*r.IntN(40):]
			copy(at, []byte{byte(r.IntN(pages)), 0, 0, 0})
			return d
		}},
		{"an element", func(r *rand.Rand, d []byte) []byte {
			for {
				p := page(r, d)
				if kind, count := p[8], int(p[10]); (kind == 1 || kind == 2) && count > 0 {
					at := 16 + 16*r.IntN(count) + 4*r.IntN(4)
					p[at] ^= 1 << r.IntN(8)
					return d
				}
			}
		}},
		{"bytes", func(r *rand.Rand, d []byte) []byte { fill(r, page(r, d)[r.IntN(pageSize-16):][:16]); return d }},
		{"a sector", func(r *rand.Rand, d []byte) []byte { fill(r, page(r, d)[512*r.IntN(8):][:512]); return d }},
		{"a page", func(r *rand.Rand, d []byte) []byte { fill(r, page(r, d)); return d }},
		{"a page of zeros", func(r *rand.Rand, d []byte) []byte { clear(page(r, d)); return d }},
		{"the last page", func(r *rand.Rand, d []byte) []byte { fill(r, d[(pages-1)*pageSize:]); return d }},
		{"a page twice", func(r *rand.Rand, d []byte) []byte { copy(page(r, d), slices.Clone(page(r, d))); return d }},
		{"a page with the number of another", func(r *rand.Rand, d []byte) []byte {
			to := page(r, d)
			number := slices.Clone(to[:8])
			copy(to, slices.Clone(page(r, d)))
			copy(to, number)
			return d
		}},
		{"everything", func(r *rand.Rand, d []byte) []byte { fill(r, d[r.IntN(len(d)):]); return d }},
	}
	for _, damage := range damages {
		t.Run(damage.name, func(t *testing.T) {
			opened := 0
			for seed := range testrun.Of(60, 25) {
				data := damage.do(rand.New(rand.NewPCG(uint64(seed), 7)), slices.Clone(whole))
				if openDamaged(t, filepath.Join(t.TempDir(), "journal"), data, want) {
					opened++
				}
			}
			t.Logf("%d files opened", opened)
		})
	}
}

// openDamaged reports whether a file opened.
func openDamaged(t *testing.T, path string, data []byte, want map[string][]string) bool {
	t.Helper()
	check(t, os.WriteFile(path, data, 0o600))
	f, err := journal.Open(path)
	if err != nil {
		if !strings.Contains(err.Error(), path) || !errors.Is(err, journal.ErrDamaged) {
			t.Fatalf("the error is %v, want ErrDamaged and the path", err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(data) {
			t.Fatalf("the damaged file was changed: %v", err)
		}
		return false
	}
	if len(data) == 0 { // a new one
		want = map[string][]string{}
	}
	if diff := cmp.Diff(want, contents(t, f)); diff != "" {
		t.Fatalf("opened with other records (-want +got):\n%s", diff)
	}
	for n := range 20 { // into pages that were damaged
		j := lock(t, f, fmt.Sprint("new ", n))
		add(t, j, strings.Repeat("x", 1000))
		j.Release()
	}
	closeFile(t, f)
	again, err := journal.Open(path)
	if err != nil {
		t.Fatalf("after more records: %v", err)
	}
	defer closeFile(t, again)
	got := contents(t, again)
	for n := range 20 {
		delete(got, fmt.Sprint("new ", n))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("after more records (-want +got):\n%s", diff)
	}
	return true
}
