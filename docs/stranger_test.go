//go:build stranger

package docs_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// way is what a stranger types to get somewhere: the blocks of sections of pages, of all sections for an empty name.
type way struct {
	name      string
	parts     [][2]string // page and section
	installed int         // number of commands at the beginning that compile or install, which are not counted
	prints    []string
}

// The way to a server of a real Nova is typed in the stage nova: TestRealNovaByTheCommandsThatRunPrints.
func ways() []way {
	install := [2]string{"../README.md", "Install"}
	return []way{
		{
			"Go developer: a spawn, an own test, an agent, its drill",
			[][2]string{install, {"../README.md", "Try it"}, {"first-agent.md", ""}},
			2, []string{"cn0", "--- PASS: TestNoHostBinds", "--- PASS: TestDrill", "start 0a1b2c3d", "destroy 0a1b2c3d", "nothing leaked"},
		},
		{"user of OpenStack's clients", [][2]string{install, {"../README.md", "A server"}}, 2, []string{"nothing leaked", "cn0_0000:3b:00.0", "stopped process"}},
		{
			"operator: from a machine to a flavor", [][2]string{install, {"operators.md", "From a machine to a flavor"}}, 2,
			[]string{"What Cyborg's agent would offer", "host cn1: candidate", "stopped process"},
		},
		{"drill with a report", [][2]string{install, {"first-agent.md", "Copy it"}, {"first-agent.md", "A test of your own"}, {"test-your-agent.md", "Drill it"}}, 2, []string{"0 failed"}},
	}
}

// The limits of a way: what a stranger types, and how long it takes when everything is compiled.
const (
	maxCommands = 12
	maxLines    = 60
	maxTime     = time.Minute

	slack = 3 // times longer a way may take on a machine that does other work
)

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

// TestStranger types what the README and the pages say that it leads to, each way in a shell of its own, from an empty home. The
// first time compiles; the second time counts.
func TestStranger(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			script, commands, lines := w.script(t)
			if commands -= w.installed; commands > maxCommands || lines > maxLines {
				t.Errorf("%d commands and %d lines, more than %d or %d", commands, lines, maxCommands, maxLines)
			}
			typeIt(t, script)
			began := time.Now()
			out := typeIt(t, script)
			took := time.Since(began).Round(100 * time.Millisecond)
			t.Logf("%d commands, %d lines, %s", commands, lines, took)
			if took > slack*maxTime {
				t.Errorf("%s are more than %d times %s", took, slack, maxTime)
			}
			for _, want := range w.prints {
				if !strings.Contains(out, want) {
					t.Errorf("nothing printed %q:\n%s", want, tail(out))
				}
			}
		})
	}
}

// script is what is typed, with the number of its commands and lines.
func (w way) script(t *testing.T) (script string, commands, lines int) {
	t.Helper()
	for _, part := range w.parts {
		count := 0
		for _, b := range blocksOf(t, part[0]) {
			text := b.typed()
			if text == "" || b.text == "go test ./...\n" || part[1] != "" && b.section != part[1] {
				continue
			}
			script += text
			count++
			lines += strings.Count(text, "\n")
			commands += commandsIn(text)
		}
		if count == 0 {
			t.Fatalf("%s has nothing to type under %q", part[0], part[1])
		}
	}
	return script, commands, lines
}

// commandsIn counts the commands of a block. The lines of a file belong to the command that writes it.
func commandsIn(text string) (commands int) {
	end := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch _, marker, isFile := strings.Cut(line, "<<'"); {
		case end != "":
			if line == end {
				end = ""
			}
		case isFile:
			end = strings.TrimSuffix(marker, "'")
			commands++
		case line != "":
			commands++
		}
	}
	return commands
}

// typeIt types a script in a copy of the clone, and returns what it printed.
func typeIt(t *testing.T, script string) string {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var out bytes.Buffer
	command := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\ntrap 'cysim stop --all >/dev/null 2>&1 || true' EXIT\n"+script)
	command.Dir, command.Env = copyClone(t, home), strangersEnvironment(t, home)
	command.Stdout, command.Stderr, command.WaitDelay = &out, &out, time.Second
	if err := command.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, tail(out.String()))
	}
	return out.String()
}
