package tables_test

import (
	"cmp"
	"errors"
	"iter"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// large is a component with many rows, made as they are read. It measures the memory during that.
type large struct {
	sim.Recorded
	rows, length int // of a row, in bytes; 0: 16 KiB
	fail         int // the row that cannot be read; 0: none
	most         uint64
}

var errUnreadable = errors.New("unreadable")

// Records implements [sim.Recorded].
func (l *large) Records() iter.Seq2[sim.Record, error] {
	return func(yield func(sim.Record, error) bool) {
		row := make([]byte, cmp.Or(l.length, 16<<10))
		for i := range l.rows {
			if i%1000 == 0 {
				runtime.GC()
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				l.most = max(l.most, memory.HeapAlloc)
			}
			var err error
			if l.fail > 0 && i == l.fail {
				err = errUnreadable
			}
			if !yield(sim.Record{Table: "rows", Key: strconv.Itoa(1e6 + i), Row: row}, err) {
				return
			}
		}
	}
}

func TestANewFileIsWrittenInLittleMemory(t *testing.T) {
	file, _ := newFile(t)
	from := &large{rows: 6000} // 94 MiB
	if err := file.Init([]byte(`{}`), from); err != nil {
		t.Fatal(err)
	}
	if from.most > 50<<20 {
		t.Errorf("%d MiB in use while 94 MiB were written", from.most>>20)
	}
	if _, records, err := file.Read(); err != nil || len(records) != from.rows {
		t.Errorf("%d rows, error %v", len(records), err)
	}
}

func TestANewFileIsNotMuchLargerThanItsRows(t *testing.T) {
	file, path := newFile(t)
	from := &large{rows: 40_000, length: 200} // 7.6 MiB; a file grows to twice its size
	if err := file.Init([]byte(`{}`), from); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if length := int64(from.rows * from.length); info.Size() > length*5/2 {
		t.Errorf("%d KiB of rows are in %d KiB", length>>10, info.Size()>>10)
	}
}

func TestANewFileThatWasNotCompletedIsNew(t *testing.T) {
	file, _ := newFile(t)
	if err := file.Init([]byte(`{}`), &large{rows: 2000, fail: 1500}); !errors.Is(err, errUnreadable) {
		t.Fatal("error", err)
	}
	if model, records, err := file.Read(); model != nil || records != nil || err != nil {
		t.Errorf("model %s, %d records, error %v", model, len(records), err)
	}
	if err := file.Init([]byte(`{}`), &large{rows: 10}); err != nil {
		t.Fatal(err)
	}
	if model, records, err := file.Read(); model == nil || len(records) != 10 || err != nil {
		t.Errorf("model %s, %d records, error %v", model, len(records), err)
	}
}

func TestAFileThatLostItsHeaderIsNotNew(t *testing.T) {
	file, path := newFile(t)
	if err := errors.Join(file.Init([]byte(`{}`), &large{rows: 1}), file.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("header")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if file, err = tables.OpenFile(path, false); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, _, err := file.Read(); !errors.Is(err, sim.ErrRecords) {
		t.Error("error", err)
	}
}
