package tables_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// kept is a fixture whose rows are kept in a file.
type kept struct {
	fixture
	path  string
	file  *tables.File
	queue *tables.Queue
}

// newFile is a file without a header, and its path.
func newFile(t testing.TB) (*tables.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	file, err := tables.OpenFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file, path
}

func newKept(t *testing.T) kept {
	t.Helper()
	k := kept{fixture: newFixture()}
	k.file, k.path = newFile(t)
	k.add("first")
	if err := k.file.Init([]byte(`{"hosts":2}`), k.db); err != nil {
		t.Fatal(err)
	}
	k.queue = tables.NewQueue(k.file)
	t.Cleanup(func() { _ = k.queue.Close() })
	k.db.OnCommit(k.queue.Append)
	return k
}

// check compares the file with the rows.
func (k kept) check(t *testing.T) {
	t.Helper()
	model, records, err := k.file.Read()
	if err != nil || string(model) != `{"hosts":2}` {
		t.Fatalf("model %s, error %v", model, err)
	}
	if diff := cmp.Diff(collect(t, k.db), records); diff != "" {
		t.Errorf("records in the file (-want +got):\n%s", diff)
	}
}

func TestAFileFollowsTheCommits(t *testing.T) {
	k := newKept(t)
	k.check(t)
	k.add("second")
	k.add("third")
	k.db.Update(nil, func(tx *tables.Tx) { k.rows.Delete(tx, 1); k.notes.Put(tx, note{Name: "n", Row: "third"}) })
	if err := k.queue.Sync(); err != nil {
		t.Fatal(err)
	}
	k.check(t)
	if err := sim.Replace(t.Context(), k.db, nil); err != nil {
		t.Fatal(err)
	}
	k.add("fourth")
	if err := errors.Join(k.queue.Close(), k.file.Close()); err != nil {
		t.Fatal(err)
	}
	var err error
	if k.file, err = tables.OpenFile(k.path, true); err != nil {
		t.Fatal(err)
	}
	defer k.file.Close()
	k.check(t)
}

func TestCommitsReachTheFileWithoutSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept(t)
		k.add("second")
		later, cancel := context.WithTimeout(t.Context(), time.Second) // of virtual time
		defer cancel()
		<-later.Done()
		k.check(t)
	})
}

func TestAFailedWriteStaysInTheQueue(t *testing.T) {
	k := newKept(t)
	other, _ := newFile(t)
	q := tables.NewQueue(other) // which cannot be written to before it has a header
	defer func() { _ = q.Close() }()
	k.db.OnCommit(q.Append)
	for _, uuid := range []string{"second", "third"} {
		k.add(uuid)
		if err := q.Sync(); err == nil {
			t.Error("no error without a file to write to")
		}
	}
	if err := other.Init([]byte(`{"hosts":2}`), newFixture().db); err != nil {
		t.Fatal(err)
	}
	if err := q.Sync(); err != nil {
		t.Fatal(err)
	}
	_, records, err := other.Read()
	if want := collect(t, k.db)[1:]; err != nil || !cmp.Equal(want, records) { // the first is from before
		t.Errorf("error %v, records (-want +got):\n%s", err, cmp.Diff(want, records))
	}
}

func TestSyncsThatWaitTogetherShareAWrite(t *testing.T) {
	k := newKept(t)
	var waiting sync.WaitGroup
	for i := range 50 {
		waiting.Go(func() {
			k.add(strings.Repeat("x", i+1))
			if err := k.queue.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	waiting.Wait()
	k.check(t)
}

func TestOpenFileRefusesWhatIsNoStateFile(t *testing.T) {
	k := newKept(t)
	synctest.Test(t, func(t *testing.T) {
		if _, err := tables.OpenFile(k.path, false); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("a file that is open: %v", err)
		}
	})
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]error{write("empty", ""): tables.ErrEmpty, write("text", strings.Repeat("text", 10000)): sim.ErrRecords} {
		if _, err := tables.OpenFile(path, true); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := tables.OpenFile(filepath.Join(t.TempDir(), "missing"), true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestAFileOfAnotherVersionIsNamed(t *testing.T) {
	for _, c := range []struct{ bucket, key, value, want string }{
		{"gocyborg state", "schema_version", "1", "earlier release"},
		{"header", "header", `{"schema_version":3,"model":{}}`, "schema_version 3, want 2"},
		{"header", "header", `{"schema_version":3,"models":[]}`, "schema_version 3, want 2"},
		{"header", "header", `{}`, "schema_version 0, want 2"},
		{"header", "header", `{`, "header"},
		{"header", "header", `{"schema_version":2,"model":{}}`, "no checksums, the form of an earlier release"},
	} {
		path := filepath.Join(t.TempDir(), "state")
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucket([]byte(c.bucket))
			if err != nil {
				return err
			}
			return bucket.Put([]byte(c.key), []byte(c.value))
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := tables.OpenFile(path, true)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = f.Read()
		if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.value, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// damaged is a file of some pages, and what is in it.
func damaged(t testing.TB) (whole []byte, records []sim.Record) {
	t.Helper()
	file, path := newFile(t)
	f := newFixture()
	f.db.Update(nil, func(tx *tables.Tx) {
		for i := range 300 {
			f.rows.Put(tx, row{ID: f.ids.Next(tx), UUID: strings.Repeat("x", i%50) + strconv.Itoa(i)})
		}
		f.notes.Put(tx, note{Name: "n", Row: "0"})
	})
	if err := errors.Join(file.Init([]byte(`{"hosts":2}`), f.db), file.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole, collect(t, f.db)
}

// checkDamaged opens a file with other bytes: it is an error, or nothing was lost.
func checkDamaged(t testing.TB, path string, data []byte, want []sim.Record) (refused bool) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := tables.OpenFile(path, true)
	if err != nil {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("open: the error does not name the file: %v", err)
		}
		return true
	}
	defer f.Close()
	model, records, err := f.Read()
	if err != nil {
		if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), path) {
			t.Errorf("read: %v", err)
		}
		return true
	}
	if isNew := model == nil && records == nil; !isNew && (string(model) != `{"hosts":2}` || !reflect.DeepEqual(records, want)) {
		t.Errorf("model %s, rows (-want +got):\n%s", model, cmp.Diff(want, records))
	}
	return false
}

func TestADamagedFileIsAnErrorOrWhole(t *testing.T) {
	whole, records := damaged(t)
	path := filepath.Join(t.TempDir(), "damaged")
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 300 {
		data := bytes.Clone(whole)
		if random.IntN(2) == 0 {
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		} else {
			for range 1 + random.IntN(40) {
				data[random.IntN(len(data))] = byte(random.Uint32())
			}
			data = data[:len(data)-random.IntN(2)*random.IntN(len(data))]
		}
		if checkDamaged(t, path, data, records) {
			refused++
		}
	}
	if refused < 50 || refused == 300 {
		t.Errorf("%d of 300 files were refused", refused)
	}
}

func FuzzDamagedFile(f *testing.F) {
	whole, records := damaged(f)
	path := filepath.Join(f.TempDir(), "damaged")
	f.Add(uint32(15*4096+72), byte(8), uint32(0)) // a branch that leads to itself
	f.Add(uint32(4*4096+10), byte(1), uint32(0))  // one row less
	f.Add(uint32(0), byte(0), uint32(4096))
	f.Add(uint32(16*4096+200), byte(255), uint32(1))
	f.Add(uint32(16*4096+21), byte(251), uint32(8)) // a small bucket whose page is something else
	f.Fuzz(func(t *testing.T, at uint32, change byte, cut uint32) {
		data := bytes.Clone(whole[:len(whole)-int(cut)%len(whole)])
		data[int(at)%len(data)] ^= change
		checkDamaged(t, path, data, records)
	})
}

func TestOpenFileRefusesWhatCouldBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := exec.Command("mkfifo", path).Run(); err != nil {
		t.Skipf("no FIFO can be made here: %v", err)
	}
	for _, readOnly := range []bool{true, false} {
		if _, err := tables.OpenFile(path, readOnly); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("read only %t: %v", readOnly, err)
		}
	}
	if _, err := tables.OpenFile(t.TempDir(), false); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestOpenFileTakesTheFileFromOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	k := newKept(t)
	if err := errors.Join(k.queue.Close(), k.file.Close(), os.Chmod(k.path, 0o644)); err != nil {
		t.Fatal(err)
	}
	mode := func(readOnly bool) os.FileMode {
		f, err := tables.OpenFile(k.path, readOnly)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(k.path)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if got := mode(true); got != 0o644 {
		t.Errorf("mode %o after reading, want 644", got)
	}
	if got := mode(false); got != 0o600 {
		t.Errorf("mode %o, want 600", got)
	}
}

// Opening waits for a process that is ending: the caller cannot know when it has ended.
func TestOpenFileWaitsForTheProcessThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state")
		first, err := tables.OpenFile(path, false)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(2 * time.Second)
			if err := first.Close(); err != nil {
				t.Error(err)
			}
		}()
		second, err := tables.OpenFile(path, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
}
