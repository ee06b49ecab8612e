package daemon

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheProcessIsNoDaemon(t *testing.T) {
	t.Parallel()
	args := []string{"serve", "--daemon", "--log", "file", "--daemon=true", "--daemon=1", "--daemons"}
	if diff := cmp.Diff([]string{"serve", "--log", "file", "--daemons"}, withoutFlag(args)); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

// A daemon reports what its server waits for: each warning once, and no warning from before its start.
func TestAServerThatIsNotReadySaysWhy(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text + "\n"); err != nil || file.Close() != nil {
			t.Fatal(err)
		}
	}
	const old = "time=2026-01-01T00:00:00Z level=WARN msg=old"
	write(old)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		ended := make(chan bool)
		go func() { reportWait(ctx, &out, log, int64(len(old)+1)); close(ended) }()
		time.Sleep(3 * time.Second)
		write("Cyborg listens\ntime=2026-01-01T00:00:00Z level=WARN msg=\"report failed\" host=cn0")
		time.Sleep(10 * time.Second)
		cancel()
		<-ended
		want := "cysim: not ready yet: msg=\"report failed\" host=cn0\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	if got := lastWarning(os.DevNull, 0); got != "" {
		t.Errorf("of a device: %s", got)
	}
}

func TestTheErrorOfAProcessKeepsItsLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"--model m.json: simcloud: bad model: hosts[0].vcpus: -1 is negative": "--model m.json: simcloud: bad model: hosts[0].vcpus: -1 is negative",
		"--model m.json: simcloud: bad model:\n  a\n  b\n  ... and 7 more":    "--model m.json: simcloud: bad model: a\nb\n... and 7 more",
	} {
		log := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(log, []byte("time=now level=INFO msg=first\ncysim: "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, failure(nil, log).Error()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
