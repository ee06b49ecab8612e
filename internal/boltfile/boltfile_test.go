package boltfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/gocyborg/gocyborg/internal/boltfile"
)

const pageSize = 4096

// write makes a file with small buckets, large ones and values of several pages, and returns its values by the path of their keys.
func write(t *testing.T, random *rand.Rand) (file []byte, want map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(fmt.Append(nil, "bucket ", random.IntN(5)))
			if err == nil && random.IntN(3) == 0 {
				b, err = b.CreateBucketIfNotExists([]byte("below"))
			}
			for range random.IntN(60) {
				err = errors.Join(err, b.Put(fmt.Append(nil, "key ", random.IntN(1000)), make([]byte, random.IntN(20)*random.IntN(30)*random.IntN(30))),
					b.Delete(fmt.Append(nil, "key ", random.IntN(1000))))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want = map[string]string{}
	var add func(path string, b *bbolt.Bucket) error
	add = func(path string, b *bbolt.Bucket) error {
		return b.ForEach(func(key, value []byte) error {
			if value == nil {
				return add(path+"/"+string(key), b.Bucket(key))
			}
			want[path+"/"+string(key)] = string(value)
			return nil
		})
	}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return add(string(name), b) })
	})
	file, readErr := os.ReadFile(path)
	if err := errors.Join(err, db.Close(), readErr); err != nil {
		t.Fatal(err)
	}
	return file, want
}

// read returns the values of a file.
func read(file []byte) (map[string]string, error) {
	newest, err := boltfile.ReadMetas(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	pages := boltfile.NewPages(bytes.NewReader(file), newest.PageSize, newest.End)
	got := map[string]string{}
	var visit func(path string) func(boltfile.Element) error
	visit = func(path string) func(boltfile.Element) error {
		return func(e boltfile.Element) error {
			at := strings.TrimPrefix(path+"/"+string(e.Key), "/")
			if e.Flags == boltfile.BucketFlag {
				return pages.Bucket(e.Value, visit(at))
			}
			got[at] = string(e.Value)
			return nil
		}
	}
	return got, pages.Tree(newest.Root, visit(""))
}

// TestAsBbolt reads what bbolt reads.
func TestAsBbolt(t *testing.T) {
	for seed := range uint64(8) {
		file, want := write(t, rand.New(rand.NewPCG(seed, 0)))
		got, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", seed, diff)
		}
		stop := errors.New("stop")
		newest, _ := boltfile.ReadMetas(bytes.NewReader(file))
		err = boltfile.NewPages(bytes.NewReader(file), newest.PageSize, newest.End).Tree(newest.Root, func(boltfile.Element) error { return stop })
		if err != stop {
			t.Errorf("got %v, want the error of the function", err)
		}
	}
}

// TestLinks changes the headers and elements of pages, with which bbolt panics or does not return. Each read ends.
func TestLinks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	file, _ := write(t, random)
	refused := 0
	const changes = 200
	for range changes {
		data := bytes.Clone(file)
		at := pageSize*(2+random.IntN(len(data)/pageSize-2)) + random.IntN(12)*4
		data[at] = byte(random.IntN(len(data) / pageSize))
		if _, err := read(data); err != nil {
			refused++
		}
	}
	if refused < changes/20 || refused == changes {
		t.Errorf("%d of %d files were refused", refused, changes)
	}
}

// TestMetas damages each of the two meta pages: the newer one has the last change.
func TestMetas(t *testing.T) {
	file, _ := write(t, rand.New(rand.NewPCG(3, 4)))
	page := func(data []byte, i int) []byte { return data[i*pageSize : (i+1)*pageSize] }
	for i := range 2 {
		for what, damage := range map[string]func(data []byte){
			"zeros":              func(data []byte) { clear(page(data, i)) },
			"the other page":     func(data []byte) { copy(page(data, i), page(file, 1-i)) },
			"another page":       func(data []byte) { copy(page(data, i), page(file, 2)) },
			"a bit of the sum":   func(data []byte) { data[i*pageSize+72] ^= 4 },
			"a bit of the magic": func(data []byte) { data[i*pageSize+16] ^= 1 },
			"a bit of the root":  func(data []byte) { data[i*pageSize+32] ^= 1 },
		} {
			data := bytes.Clone(file)
			damage(data)
			if _, err := boltfile.ReadMetas(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), fmt.Sprint("page ", i)) {
				t.Errorf("page %d, %s: %v", i, what, err)
			}
		}
	}
	if _, err := boltfile.ReadMetas(bytes.NewReader(file[:pageSize])); err == nil {
		t.Error("a file of one page was read")
	}
}

// TestFreeList counts the elements of the list of free pages.
func TestFreeList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	newest, err := boltfile.ReadMetas(file)
	if err != nil || newest.Transaction != boltfile.FirstTransaction {
		t.Fatal(newest, err)
	}
	pages := boltfile.NewPages(file, newest.PageSize, newest.End)
	if n, err := pages.FreeList(newest.Free); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := pages.FreeList(newest.Root); err == nil {
		t.Error("a leaf was read as a list of free pages")
	}
}
