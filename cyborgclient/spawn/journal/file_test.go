package journal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

func TestOpenOddFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		want error // nil: any
	}{
		{"a directory", func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) }, nil},
		{"in a directory that does not exist", func(t *testing.T, path string) { check(t, os.Symlink("absent/journal", path)) }, os.ErrNotExist},
		{"below a file", func(t *testing.T, path string) {
			check(t, os.WriteFile(path+".file", nil, 0o600))
			check(t, os.Symlink(path+".file/journal", path))
		}, nil},
		{"a text", func(t *testing.T, path string) { check(t, os.WriteFile(path, []byte("[DEFAULT]\n"), 0o600)) }, journal.ErrDamaged},
		{"a long text", func(t *testing.T, path string) {
			check(t, os.WriteFile(path, bytes.Repeat([]byte("log line\n"), 10000), 0o600))
		}, journal.ErrDamaged},
		{"zeros", func(t *testing.T, path string) { check(t, os.WriteFile(path, make([]byte, 16384), 0o600)) }, journal.ErrDamaged},
		{"a database of another program", func(t *testing.T, path string) {
			foreign(t, path, func(tx *bbolt.Tx) error {
				_, err := tx.CreateBucket([]byte("theirs"))
				return err
			})
		}, journal.ErrDamaged},
		{"a journal and another bucket", func(t *testing.T, path string) {
			closeFile(t, open(t, path))
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
			check(t, err)
			check(t, db.Update(func(tx *bbolt.Tx) error {
				_, err := tx.CreateBucket([]byte("theirs"))
				return err
			}))
			check(t, db.Close())
		}, journal.ErrDamaged},
		{"a journal that another program has written", func(t *testing.T, path string) {
			closeFile(t, open(t, path))
			foreign(t, path, func(*bbolt.Tx) error { return nil })
		}, journal.ErrDamaged},
		{"a new file with a broken list of free pages", func(t *testing.T, path string) {
			foreign(t, path, nil)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			check(t, err)
			_, err = f.WriteAt([]byte{1, 0, 0, 0, 0, 0, 3}, 2*4096+10) // one free page, which is in use
			check(t, errors.Join(err, f.Close()))
		}, journal.ErrDamaged},
		{"an empty database of another program", func(t *testing.T, path string) {
			foreign(t, path, func(tx *bbolt.Tx) error {
				_, err := tx.CreateBucket([]byte("theirs"))
				return errors.Join(err, tx.DeleteBucket([]byte("theirs")))
			})
		}, journal.ErrDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			c.make(t, path)
			before, _ := os.ReadFile(path)
			f, err := journal.Open(path)
			switch {
			case err == nil:
				f.Close()
				t.Fatal("opened")
			case c.want != nil && !errors.Is(err, c.want):
				t.Errorf("got %v, want %v", err, c.want)
			case strings.Count(err.Error(), path) != 1:
				t.Errorf("got %v, want the path once", err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// foreign writes a file as another program does, with a transaction or none.
func foreign(t *testing.T, path string, do func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 4096})
	check(t, err)
	if do != nil {
		check(t, db.Update(do))
	}
	check(t, db.Close())
}

// TestOpenBegun opens files whose creation was interrupted.
func TestOpenBegun(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, path string){
		"no file":       func(*testing.T, string) {},
		"an empty file": func(t *testing.T, path string) { check(t, os.WriteFile(path, nil, 0o600)) },
		"a file without a transaction": func(t *testing.T, path string) {
			foreign(t, path, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			make(t, path)
			for range 2 {
				f := open(t, path)
				if got := contents(t, f); len(got) != 0 {
					t.Errorf("journals %v", got)
				}
				closeFile(t, f)
			}
			if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestOpenPermissionDenied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	closeFile(t, open(t, path))
	check(t, os.Chmod(path, 0))
	if f, err := os.Open(path); err == nil {
		check(t, f.Close())
		t.Skip("the superuser may read everything")
	}
	for _, mode := range []os.FileMode{0o000, 0o400} {
		check(t, os.Chmod(path, mode))
		if _, err := journal.Open(path); !errors.Is(err, os.ErrPermission) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("mode %v: %v, want os.ErrPermission and the path once", mode, err)
		}
	}
}

func TestOpenInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		f := open(t, path)
		begun := time.Now()
		if _, err := journal.Open(path); !errors.Is(err, journal.ErrInUse) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("got %v, want ErrInUse and the path once", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
		closeFile(t, f)
		open(t, path)
	})
}

// TestOpenAtOnce opens a new file several times at once. One succeeds.
func TestOpenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 5 {
			path := filepath.Join(t.TempDir(), "journal")
			const count = 4
			files, errs := make(chan *journal.File, count), make(chan error, count)
			for range count {
				go func() {
					f, err := journal.Open(path)
					files <- f
					errs <- err
				}()
			}
			succeeded := 0
			for range count {
				if err := <-errs; err == nil {
					succeeded++
				} else if !errors.Is(err, journal.ErrInUse) {
					t.Error(err)
				}
			}
			for range count {
				if f := <-files; f != nil {
					closeFile(t, f)
				}
			}
			if succeeded != 1 {
				t.Errorf("%d succeeded", succeeded)
			}
		}
	})
}

// TestReplaced appends to a file that is no longer at its place.
func TestReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { check(t, os.Remove(path)) },
		"moved":   func(t *testing.T, path string) { check(t, os.Rename(path, path+".old")) },
		"replaced": func(t *testing.T, path string) {
			check(t, os.Rename(path, path+".old"))
			open(t, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			j := lock(t, open(t, path), "i")
			replace(t, path)
			if err := j.Append(t.Context(), []byte("a")); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error with the path", err)
			}
		})
	}
}

// TestRelativePath goes to another directory while a file is open.
func TestRelativePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	f := open(t, "journal")
	t.Chdir(t.TempDir())
	add(t, lock(t, f, "i"), "a")
	closeFile(t, f)
	if got := contents(t, open(t, filepath.Join(dir, "journal"))); len(got) != 1 {
		t.Errorf("journals %v", got)
	}
}

// TestNames refuses names of a wrong length.
func TestNames(t *testing.T) {
	for name, store := range map[string]journal.Store{"memory": journal.NewMemory(), "file": open(t, filepath.Join(t.TempDir(), "journal"))} {
		for _, instance := range []string{"", strings.Repeat("x", 256)} {
			if _, err := store.Lock(t.Context(), instance); err == nil {
				t.Errorf("%s: a name of %d bytes was accepted", name, len(instance))
			}
		}
	}
}

// TestEndedContext changes nothing in a context that has ended.
func TestEndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, store := range map[string]journal.Store{"memory": journal.NewMemory(), "file": open(t, filepath.Join(t.TempDir(), "journal"))} {
		for range 20 { // each would succeed half of the times
			if _, err := store.Lock(ended, "i"); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: Lock: %v", name, err)
			}
		}
		j := lock(t, store, "i")
		add(t, j, "a")
		for call, err := range map[string]error{"Append": j.Append(ended, []byte("b")), "Clear": j.Clear(ended)} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
		j.Release()
		if got := contents(t, store)["i"]; len(got) != 1 {
			t.Errorf("%s: records %q", name, got)
		}
	}
}
