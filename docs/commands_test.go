package docs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// commandPages are the pages whose commands all run as they stand, from the first block to the last in one shell.
// A block of another language whose first line is a comment with the name of a file is that file.
func commandPages() []string {
	return []string{"cli.md", "control-api.md", "model.md", "explain.md", "clients.md", "placement-api.md", "security.md", "../README.md"}
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

// namedFile is the first line of a block that is a file.
var namedFile = regexp.MustCompile(`^(?:#|//) ([a-z_]+\.(?:py|tf|go|json|yaml))\n`)

// block is a fenced block of a page.
type block struct{ language, text string }

func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var list []block
	for _, match := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		list = append(list, block{match[1], match[2]})
	}
	return list
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
			root, err := filepath.Abs("..")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			script := writeBlocks(t, page, dir)
			if strings.Contains(script, "go run ./") { // from the clone
				script = "cd " + root + "\n" + script
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

// writeBlocks writes the files of a page, and returns the commands that can run here.
func writeBlocks(t *testing.T, page, dir string) string {
	t.Helper()
	var script strings.Builder
	for _, b := range blocksOf(t, page) {
		name := namedFile.FindStringSubmatch(b.text)
		switch {
		case b.language == "sh" && (withClients || !clientPrograms.MatchString(b.text)):
			script.WriteString(b.text)
		case name != nil:
			if err := os.WriteFile(filepath.Join(dir, name[1]), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return script.String()
}

// tail is the end of a text.
func tail(text string) string { return text[max(0, len(text)-4000):] }
