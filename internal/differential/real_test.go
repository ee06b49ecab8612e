//go:build differential

package differential_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/differential"
)

// The tests send the same random requests to a real service of Debian sid, which runs in a chroot, and to ours:
//
//	go test -tags differential ./internal/differential -differential.chroot DIR
//
// The stage differential of .ci/run makes the chroot. docs/dev/testing.md has more.
var run = differential.Flags()

// stateDirectory makes a directory in the chroot, and returns its path here and there.
func stateDirectory(t *testing.T) (here, there string) {
	t.Helper()
	if run.Chroot == "" {
		t.Fatal("-differential.chroot names no directory: bash .ci/run differential makes one")
	}
	here, err := os.MkdirTemp(filepath.Join(run.Chroot, "tmp"), "differential")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(here) })
	return here, strings.TrimPrefix(here, filepath.Clean(run.Chroot))
}

// startReal runs a launcher in the chroot and returns the URL that it serves. Launchers write their port on the first
// line, and end with their standard input.
func startReal(t *testing.T, launcher string, args ...string) (url string) {
	t.Helper()
	url, _ = startRealProcess(t, launcher, args...)
	return url
}

// startRealProcess is startReal. It returns the process, too.
func startRealProcess(t *testing.T, launcher string, args ...string) (url string, pid int) {
	t.Helper()
	script, err := os.ReadFile(launcher)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(launcher)
	log := new(differential.Log)
	cmd := exec.Command("chroot", append([]string{run.Chroot, "/usr/bin/python3", "-W", "ignore", "-B", "-c", string(script)}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "no_proxy=127.0.0.1"}
	cmd.Stderr = log
	stdin, stdinErr := cmd.StdinPipe()
	stdout, stdoutErr := cmd.StdoutPipe()
	if err := errors.Join(stdinErr, stdoutErr, cmd.Start()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s logged at the end: %s", name, log.Tail())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	port, notNumber := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, notNumber); err != nil {
		t.Fatalf("%s does not start: %v", name, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port), cmd.Process.Pid
}
