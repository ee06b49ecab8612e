package tables_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
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

func newKept(t *testing.T) kept {
	t.Helper()
	k := kept{fixture: newFixture(), path: filepath.Join(t.TempDir(), "state")}
	var err error
	if k.file, err = tables.OpenFile(k.path, false); err != nil {
		t.Fatal(err)
	}
	k.put("first")
	if err := k.file.Init([]byte(`{"hosts":2}`), k.db); err != nil {
		t.Fatal(err)
	}
	k.queue = tables.NewQueue(k.file)
	t.Cleanup(func() { _ = k.queue.Close(); _ = k.file.Close() })
	k.db.OnCommit(k.queue.Append)
	return k
}

func (k kept) put(uuid string) {
	k.db.Update(nil, func(tx *tables.Tx) { k.rows.Put(tx, row{ID: k.ids.Next(tx), UUID: uuid}) })
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
	k.put("second")
	k.put("third")
	k.db.Update(nil, func(tx *tables.Tx) { k.rows.Delete(tx, 1); k.notes.Put(tx, note{Name: "n", Row: "third"}) })
	if err := k.queue.Sync(); err != nil {
		t.Fatal(err)
	}
	k.check(t)
	if err := k.db.Replace(nil); err != nil {
		t.Fatal(err)
	}
	k.put("fourth")
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
		k.put("second")
		later, cancel := context.WithTimeout(t.Context(), time.Second) // of virtual time
		defer cancel()
		<-later.Done()
		k.check(t)
	})
}

func TestAFailedWriteStaysInTheQueue(t *testing.T) {
	k := newKept(t)
	other, err := tables.OpenFile(filepath.Join(t.TempDir(), "other"), false)
	if err != nil {
		t.Fatal(err)
	}
	q := tables.NewQueue(other) // which cannot be written to before it has a header
	defer func() { _ = q.Close(); _ = other.Close() }()
	k.db.OnCommit(q.Append)
	for _, uuid := range []string{"second", "third"} {
		k.put(uuid)
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
			k.put(strings.Repeat("x", i+1))
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
	if _, err := tables.OpenFile(k.path, false); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a file that is open: %v", err)
	}
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
		{"header", "header", `{}`, "schema_version 0, want 2"},
		{"header", "header", `{`, "header"},
		{"header", "header", `{"schema_version":2,"model":{}}`, "no rows"},
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

func TestABrokenFileIsAnError(t *testing.T) {
	k := newKept(t)
	for i := range 200 {
		k.put(strings.Repeat("x", i+1))
	}
	if err := errors.Join(k.queue.Close(), k.file.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "broken")
	for range 200 {
		data := append([]byte{}, whole...)
		for range 1 + random.IntN(40) {
			data[random.IntN(len(data))] = byte(random.Uint32())
		}
		data = data[:len(data)-random.IntN(2)*random.IntN(len(data))]
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := tables.OpenFile(path, true)
		if err != nil {
			continue
		}
		_, records, err := f.Read()
		if err == nil {
			_ = newFixture().db.Replace(records)
		}
		_ = f.Close()
	}
}
