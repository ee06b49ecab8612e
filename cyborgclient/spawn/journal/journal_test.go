package journal_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
)

func TestMemoryConforms(t *testing.T) {
	journaltest.Run(t, journaltest.Subject{
		Open: func(*testing.T) journal.Store { return journal.NewMemory() },
		In:   synctest.Test,
	})
}

func TestFileConforms(t *testing.T) {
	path := ""
	reopen := func(t *testing.T) journal.Store { return open(t, path) }
	journaltest.Run(t, journaltest.Subject{
		Open: func(t *testing.T) journal.Store {
			path = filepath.Join(t.TempDir(), "journal")
			return reopen(t)
		},
		Restart: func(t *testing.T, store journal.Store) journal.Store {
			closeFile(t, store.(*journal.File))
			return reopen(t)
		},
	})
}

// open opens a file until the end of a test.
func open(t testing.TB, path string) *journal.File {
	t.Helper()
	f, err := journal.Open(path)
	check(t, err)
	t.Cleanup(func() { closeFile(t, f) })
	return f
}

func closeFile(t testing.TB, f *journal.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func lock(t testing.TB, store journal.Store, instance string) journal.Journal {
	t.Helper()
	j, err := store.Lock(t.Context(), instance)
	check(t, err)
	return j
}

func add(t testing.TB, j journal.Journal, record string) {
	t.Helper()
	check(t, j.Append(t.Context(), []byte(record)))
}
