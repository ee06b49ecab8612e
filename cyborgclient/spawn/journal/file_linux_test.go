package journal_test

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

// limitedVariable is set in a process whose files a test limits.
const limitedVariable = "GOCYBORG_TEST_LIMITED"

// limited runs the test again in a process of its own, and reports whether this is that process: the testing package writes files,
// too, which a limit of the whole process may stop.
func limited(t *testing.T) bool {
	t.Helper()
	if os.Getenv(limitedVariable) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), limitedVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// limitFiles limits the length of what this process writes, until the function that it returns is called.
func limitFiles(t *testing.T, length uint64) (unlimit func()) {
	t.Helper()
	var old syscall.Rlimit
	check(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	signal.Ignore(syscall.SIGXFSZ)
	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: length, Max: old.Max}))
	unlimit = func() { check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)) }
	t.Cleanup(unlimit)
	return unlimit
}

// TestOpenFIFO does not wait for another process to open the other end.
func TestOpenFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	check(t, syscall.Mkfifo(path, 0o600))
	if _, err := journal.Open(path); err == nil || !strings.HasSuffix(err.Error(), path+": not a regular file") {
		t.Errorf("got %v, want an error with the path and the reason", err)
	}
}

// TestFull appends to a file that cannot grow, and again once it can.
func TestFull(t *testing.T) {
	if !limited(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "journal")
	f := open(t, path)
	j := lock(t, f, "i")
	add(t, j, "a")
	info, err := os.Stat(path)
	check(t, err)
	unlimit := limitFiles(t, uint64(info.Size()))
	for range 3 {
		err := j.Append(t.Context(), make([]byte, 2*info.Size()))
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), syscall.EFBIG.Error()) {
			t.Errorf("got %v, want EFBIG and the path", err) // bbolt has its text alone
		}
	}
	add(t, j, "b") // has room
	unlimit()
	add(t, j, "c")
	j.Release()
	closeFile(t, f)
	if diff := cmp.Diff(map[string][]string{"i": {"a", "b", "c"}}, contents(t, open(t, path))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestFullAtFirst creates a file without room, and again with it.
func TestFullAtFirst(t *testing.T) {
	if !limited(t) {
		return
	}
	for _, length := range []uint64{0, 4096, 16384} {
		path := filepath.Join(t.TempDir(), "journal")
		unlimit := limitFiles(t, length)
		if _, err := journal.Open(path); err == nil || errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), syscall.EFBIG.Error()) {
			t.Errorf("%d bytes: %v, want EFBIG", length, err)
		}
		unlimit()
		open(t, path)
	}
}
