package docs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// commandPages are the pages whose commands all run as they stand, from the first block to the last in one shell.
func commandPages() []string {
	return []string{"cli.md", "control-api.md", "model.md", "explain.md", "clients.md", "placement-api.md", "security.md"}
}

// clientPrograms are what needs the build tag clients.
var clientPrograms = regexp.MustCompile(`(?m)^\s*(?:\w+=\S*\s+)*(openstack|python3|terraform|pip) `)

func TestCommandsOfOtherProgramsAreKnown(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"openstack server list\n": true, "cysim check\n  OS_CLOUD=sim A=b openstack server list\n": true, "cysim check --cloud openstack\n": false,
	} {
		if got := clientPrograms.MatchString(line); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}

// cysimDir is the folder of the command, once it is built.
var cysimDir string

// buildCysim builds the command once, and returns the folder that it is in.
var buildCysim = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cysim-docs-*")
	if err != nil {
		return "", err
	}
	cysimDir = dir
	out, err := exec.Command("go", "build", "-o", dir, "../cmd/cysim").CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: "go build: " + string(out), Err: err}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if cysimDir != "" {
		_ = os.RemoveAll(cysimDir) // of this process alone
	}
	os.Exit(status)
}

// pageTimeout limits the commands of a page.
const pageTimeout = 3 * time.Minute

func TestTheCommandsOfThePagesRun(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, tool := range []string{"curl", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	for _, page := range commandPages() {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			bin, err := buildCysim()
			if err != nil {
				t.Fatal(err)
			}
			dir, script := t.TempDir(), ""
			for _, b := range blocksOf(t, page) {
				if withClients || !clientPrograms.MatchString(b.text) {
					script += b.typed()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
			defer cancel()
			command := exec.CommandContext(ctx, bash, "-c", "set -euo pipefail\ntrap '[ -z \"${CYSIM_PID:-}\" ] || kill $CYSIM_PID 2>/dev/null || true' EXIT\n"+script)
			command.Dir = dir
			command.Env = append(os.Environ(), "PATH="+bin+":/usr/bin:"+os.Getenv("PATH"), "TMPDIR="+dir, "HOME="+dir)
			for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // else below HOME
				value, err := exec.Command("go", "env", name).Output()
				if err != nil {
					t.Fatal(err)
				}
				command.Env = append(command.Env, name+"="+strings.TrimSpace(string(value)))
			}
			var out bytes.Buffer
			command.Stdout, command.Stderr, command.WaitDelay = &out, &out, time.Second
			if err := command.Run(); err != nil {
				t.Errorf("%v\n%s\noutput:\n%s", err, script, tail(out.String()))
			}
		})
	}
}

// tail is the end of a text.
func tail(text string) string { return text[max(0, len(text)-4000):] }
