//go:build stranger

package docs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// goal is what a stranger reaches by typing the blocks of a section.
type goal struct {
	page, section string // every section, if empty
	name          string
	within        time.Duration // since the first word of the README was read
}

// slack is how many times longer a goal may take on a machine that is slow, does other work or has not
// compiled anything before.
const slack = 3

func goals() []goal {
	return []goal{
		{"../README.md", "A first spawn", "first spawn", time.Minute},
		{"../README.md", "Install", "cysim installed", 2 * time.Minute},
		{"../README.md", "A server", "openstackclient against cysim", 3 * time.Minute},
		{"../README.md", "A fixture", "first own test", 5 * time.Minute},
		{"../README.md", "An agent", "own agent against cysim", 15 * time.Minute},
		{"drill-your-agent.md", "", "drill of the agent", 20 * time.Minute},
	}
}

// copyClone copies the clone to a new directory gocyborg.
func copyClone(t *testing.T, to string) string {
	t.Helper()
	list, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("not a clone: ", err)
	}
	dir := filepath.Join(to, "gocyborg")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile("../" + name)
		if errors.Is(err, fs.ErrNotExist) { // deleted, and not committed yet
			continue
		}
		file := filepath.Join(dir, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o700)
		}
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// goEnv is a variable of the go command.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(value))
}

// strangersEnvironment is that of somebody who has Go and OpenStack's clients, and nothing of ours. What Go has
// compiled before is at hand.
func strangersEnvironment(t *testing.T, home string) []string {
	t.Helper()
	return []string{
		"HOME=" + home, "TMPDIR=" + home, "PATH=" + goEnv(t, "GOROOT") + "/bin:/usr/bin:/bin",
		"GOCACHE=" + goEnv(t, "GOCACHE"), "GOTOOLCHAIN=local", "GOSUMDB=off", "GOFLAGS=-modcacherw -trimpath -count=1",
		"GOPROXY=file://" + filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download") + "," + goEnv(t, "GOPROXY"),
	}
}

// TestStranger types what the README says, and what the pages say that it leads to, in one shell from top to
// bottom, and fails when a goal takes much longer than a new user is promised.
func TestStranger(t *testing.T) {
	home := t.TempDir()
	script := "set -euo pipefail\ntrap '[ -z \"${CYSIM_PID:-}\" ] || kill $CYSIM_PID 2>/dev/null || true' EXIT\n"
	for _, g := range goals() {
		count := 0
		for _, b := range blocksOf(t, g.page) {
			if text := b.typed(); text != "" && elsewhere(b) == "stranger_test.go" && (g.section == "" || b.section == g.section) {
				script += text
				count++
			}
		}
		if count == 0 {
			t.Fatalf("%s has nothing to type under %q", g.page, g.section)
		}
		script += "date +%s.%N >&3\n"
	}
	limit := goals()[len(goals())-1].within
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	reached, err := os.CreateTemp(home, "reached-*")
	if err != nil {
		t.Fatal(err)
	}
	defer reached.Close()
	var out bytes.Buffer
	command := exec.CommandContext(ctx, "bash", "-c", script)
	command.Dir, command.Env, command.ExtraFiles = copyClone(t, home), strangersEnvironment(t, home), []*os.File{reached}
	command.Stdout, command.Stderr, command.WaitDelay = &out, &out, time.Second
	began := time.Now()
	failure := command.Run()
	times, err := os.ReadFile(reached.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(times))
	for i, g := range goals() {
		if i >= len(lines) {
			t.Fatalf("%s: not reached: %v\n%s", g.name, failure, tail(out.String()))
		}
		var at float64
		if _, err := fmt.Sscan(lines[i], &at); err != nil {
			t.Fatal(err)
		}
		took := time.Duration((at - float64(began.UnixNano())/1e9) * 1e9).Round(100 * time.Millisecond)
		t.Logf("%-30s after %6s, promised %s", g.name, took, g.within)
		if took > slack*g.within {
			t.Errorf("%s: %s are more than %d times %s", g.name, took, slack, g.within)
		}
	}
	for _, want := range []string{"cn0", "start 0a1b2c3d", "destroy 0a1b2c3d", "--- PASS: TestDrill", "nothing leaked"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing printed %q:\n%s", want, tail(out.String()))
		}
	}
}
