package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/testrun"
)

type writeAt = func(data []byte, offset int64) (int, error)

// intercept makes bbolt write with another function, which is given the first one.
func intercept(f *File, with func(disk writeAt, data []byte, offset int64) (int, error)) {
	field := reflect.ValueOf(f.db).Elem().FieldByName("ops").FieldByName("writeAt")
	place := (*writeAt)(unsafe.Pointer(field.UnsafeAddr()))
	disk := *place
	*place = func(data []byte, offset int64) (int, error) { return with(disk, data, offset) }
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openTest(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func lockTest(t *testing.T, s Store, instance string) Journal {
	t.Helper()
	j, err := s.Lock(t.Context(), instance)
	check(t, err)
	return j
}

func contentsOf(f *File) map[string][]string {
	all := make(map[string][]string)
	for instance, e := range f.table.entries {
		for _, r := range e.records {
			all[instance] = append(all[instance], string(r))
		}
	}
	return all
}

// diskWrite is a write of bbolt, and what the file had at its offset before.
type diskWrite struct {
	offset       int64
	before, data []byte
}

const (
	testSector = 512
	testPages  = 2 * 4096 // the meta pages
)

// TestPowerFailure stops the machine in each transaction: any sectors of the pages that it wrote are on the disk, and of
// the meta page, which follows after a flush, none or all of its first sector. The next Open finds the state before or after
// the transaction, and after it if its meta page was written.
func TestPowerFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	f := openTest(t, path)
	var writes []diskWrite
	intercept(f, func(disk writeAt, data []byte, offset int64) (int, error) {
		before := make([]byte, len(data))
		if file, err := os.Open(path); err == nil {
			file.ReadAt(before, offset) // beyond the end there are zeros
			file.Close()
		}
		writes = append(writes, diskWrite{offset, before, slices.Clone(data)})
		return disk(data, offset)
	})
	random := rand.New(rand.NewPCG(3, 4))
	for n := range testrun.Of(120, 60) {
		writes = nil
		before := contentsOf(f)
		j := lockTest(t, f, fmt.Sprint("instance ", random.IntN(12)))
		var err error
		if random.IntN(8) == 0 {
			err = j.Clear(t.Context())
		} else {
			err = j.Append(t.Context(), make([]byte, random.IntN(300)*(1+50*random.IntN(2)*random.IntN(2))))
		}
		j.Release()
		check(t, err)
		after := contentsOf(f)
		whole, err := os.ReadFile(path)
		check(t, err)
		for k := range 4 {
			data := slices.Clone(whole)
			want := before
			for _, w := range writes {
				torn := tear(random, w)
				if isMeta := w.offset < testPages; isMeta && k%2 == 0 {
					torn = w.before
				} else if isMeta {
					torn = slices.Concat(w.data[:testSector], torn[testSector:])
					want = after
				} else if k%2 == 1 {
					torn = w.data
				}
				copy(data[w.offset:], torn)
			}
			copyPath := filepath.Join(dir, fmt.Sprint(n, " ", k))
			check(t, os.WriteFile(copyPath, data, 0o600))
			again := openTest(t, copyPath)
			if diff := cmp.Diff(want, contentsOf(again)); diff != "" {
				t.Fatalf("change %d, case %d (-want +got):\n%s", n, k, diff)
			}
			again.Close()
			os.Remove(copyPath)
		}
	}
}

// tear returns what a write that was interrupted left of each sector.
func tear(random *rand.Rand, w diskWrite) []byte {
	torn := slices.Clone(w.before)
	for at := 0; at < len(torn); at += testSector {
		if random.IntN(2) == 0 {
			copy(torn[at:at+testSector], w.data[at:])
		}
	}
	return torn
}

// TestDiskErrors lets a write fail, before and after it has reached the disk. The table agrees with the file, and later
// changes succeed.
func TestDiskErrors(t *testing.T) {
	full := errors.New("no space on the disk")
	for _, c := range []struct {
		name    string
		fails   func(offset int64) bool
		reaches bool
	}{
		{"a page", func(offset int64) bool { return offset >= testPages }, false},
		{"the meta page", func(offset int64) bool { return offset < testPages }, false},
		{"the flush after the meta page", func(offset int64) bool { return offset < testPages }, true},
	} {
		for _, operation := range []string{"append", "clear"} {
			t.Run(c.name+", "+operation, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "journal")
				f := openTest(t, path)
				j := lockTest(t, f, "i")
				check(t, j.Append(t.Context(), []byte("a")))
				fail := true
				intercept(f, func(disk writeAt, data []byte, offset int64) (int, error) {
					if !fail || !c.fails(offset) {
						return disk(data, offset)
					}
					if c.reaches {
						disk(data, offset)
					}
					return 0, full
				})
				want := []string{"a"}
				var err error
				if operation == "append" {
					err = j.Append(t.Context(), []byte("b"))
				} else {
					err = j.Clear(t.Context())
				}
				if !errors.Is(err, full) {
					t.Fatalf("got %v, want %v", err, full)
				}
				if c.reaches && operation == "append" {
					want = []string{"a", "b"}
				} else if c.reaches {
					want = nil
				}
				fail = false
				for _, r := range []string{"c", "d"} {
					check(t, j.Append(t.Context(), []byte(r)))
					want = append(want, r)
				}
				j.Release()
				expected := map[string][]string{"i": want}
				if diff := cmp.Diff(expected, contentsOf(f)); diff != "" {
					t.Errorf("in memory (-want +got):\n%s", diff)
				}
				check(t, f.Close())
				if diff := cmp.Diff(expected, contentsOf(openTest(t, path))); diff != "" {
					t.Errorf("in the file (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestBrokenWhileOpen truncates a file that is open. Each later call fails, and none waits for ever.
func TestBrokenWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	f := openTest(t, path)
	j := lockTest(t, f, "i")
	check(t, j.Append(t.Context(), []byte("a")))
	check(t, os.Truncate(path, 0))
	for range 2 {
		if err := j.Append(t.Context(), []byte("b")); !errors.Is(err, ErrDamaged) {
			t.Errorf("Append: %v, want ErrDamaged", err)
		}
	}
	j.Release()
	if err := f.Close(); !errors.Is(err, ErrDamaged) {
		t.Errorf("Close: %v, want ErrDamaged", err)
	}
}

// TestGroupCommit holds the disk while many instances append: one transaction writes them all.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, blocked := heldDisk(t)
		first := appendInBackground(t, f, "first")
		synctest.Wait()
		before, err := f.transaction()
		check(t, err)
		var rest []<-chan error
		for n := range 50 {
			rest = append(rest, appendInBackground(t, f, fmt.Sprint(n)))
		}
		synctest.Wait()
		close(blocked)
		for _, result := range append(rest, first) {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		after, err := f.transaction()
		check(t, err)
		if n := after - before; n != 2 {
			t.Errorf("%d transactions, want 2", n)
		}
		if n := len(f.table.entries); n != 51 {
			t.Errorf("%d journals, want 51", n)
		}
	})
}

// heldDisk opens a file whose writes wait until the channel is closed.
func heldDisk(t *testing.T) (f *File, blocked chan struct{}) {
	f = openTest(t, filepath.Join(t.TempDir(), "journal"))
	blocked = make(chan struct{})
	intercept(f, func(disk writeAt, data []byte, offset int64) (int, error) {
		<-blocked
		return disk(data, offset)
	})
	return f, blocked
}

func appendInBackground(t *testing.T, f *File, instance string) <-chan error {
	result := make(chan error, 1)
	j := lockTest(t, f, instance)
	go func() {
		defer j.Release()
		result <- j.Append(t.Context(), []byte(instance))
	}()
	return result
}

// TestAppendContext ends the context of an Append that waits for the disk. The right stays with the record.
func TestAppendContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, blocked := heldDisk(t)
		j := lockTest(t, f, "i")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.Append(ctx, []byte("a")); !errors.Is(err, ctx.Err()) || err == nil {
			t.Errorf("Append: %v, want the error of the context", err)
		}
		j.Release()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Lock(short, "i"); !errors.Is(err, short.Err()) || err == nil {
			t.Errorf("Lock while a record is on its way: %v, want the error of the context", err)
		}
		closed := make(chan error, 1)
		close(blocked)
		next := lockTest(t, f, "i")
		if got := len(next.Records()); got != 1 {
			t.Errorf("%d records, want 1", got)
		}
		next.Release()
		go func() { closed <- f.Close() }()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// TestBatch writes several changes of one journal in one transaction.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, blocked := heldDisk(t)
		appendInBackground(t, f, "another")
		synctest.Wait()
		j := lockTest(t, f, "i")
		for _, r := range []string{"a", "b", "", "c", "d"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var err error
			if r == "" {
				err = j.Clear(ctx)
			} else {
				err = j.Append(ctx, []byte(r))
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q: %v, want the error of the context", r, err)
			}
		}
		close(blocked)
		check(t, f.Close())
		want := map[string][]string{"another": {"another"}, "i": {"c", "d"}}
		if diff := cmp.Diff(want, contentsOf(openTest(t, f.path))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestClose waits for what is queued, ends what waits for a right, and refuses the rest.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, blocked := heldDisk(t)
		queued := appendInBackground(t, f, "queued")
		held := lockTest(t, f, "held")
		waiting := make(chan error, 1)
		go func() {
			_, err := f.Lock(t.Context(), "held")
			waiting <- err
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- f.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("Close did not wait for the disk: %v", err)
		default:
		}
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("a Lock that waits: %v, want ErrClosed", err)
		}
		_, lockErr := f.Lock(t.Context(), "another")
		_, listErr := f.Unfinished(t.Context())
		for name, err := range map[string]error{
			"Append": held.Append(t.Context(), nil), "Clear": held.Clear(t.Context()), "Renew": held.Renew(t.Context()), "Lock": lockErr, "Unfinished": listErr,
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", name, err)
			}
		}
		held.Release()
		close(blocked)
		for _, result := range []<-chan error{queued, closed} {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
		again := openTest(t, f.path)
		if got := slices.Collect(maps.Keys(again.table.entries)); !slices.Equal(got, []string{"queued"}) {
			t.Errorf("journals %q", got)
		}
	})
}

// TestNothingKept shows that neither store keeps what is cleared.
func TestNothingKept(t *testing.T) {
	f := openTest(t, filepath.Join(t.TempDir(), "journal"))
	m := NewMemory()
	for name, c := range map[string]struct {
		store Store
		table *table
	}{"memory": {m, &m.table}, "file": {f, &f.table}} {
		for _, instance := range []string{"a", "b"} {
			j := lockTest(t, c.store, instance)
			check(t, j.Append(t.Context(), []byte("record")))
			check(t, j.Clear(t.Context()))
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.store.Lock(ended, instance); err == nil {
				t.Fatal("locked twice")
			}
			j.Release()
		}
		if n := len(c.table.entries); n != 0 {
			t.Errorf("%s: %d journals", name, n)
		}
	}
}
