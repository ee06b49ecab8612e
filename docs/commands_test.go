package docs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver/drivertest"
)

// commandPages are the pages whose commands all run as they stand, from the first block to the last in one shell.
func commandPages() []string {
	return []string{"cli.md", "control-api.md", "model.md", "clients.md", "placement-api.md", "security.md",
		"operators.md", "requests.md", "state.md"}
}

// before is what a page takes for granted: the reader's cloud and files.
func before(t *testing.T, page, dir string) string {
	t.Helper()
	const cloud = "eval \"$(cysim serve --daemon --clouds-yaml clouds.yaml)\"\nREADER_PID=$CYSIM_PID\nexport OS_CLOUD=sim\n"
	switch page {
	case "clients.md": // a shell that was set up for another cloud, with the plugin for pytest installed
		shell := "export OS_CLOUD=elsewhere OS_AUTH_TYPE=v3token OS_TOKEN=0 OS_USERNAME=me OS_PASSWORD=mine OS_PROJECT_ID=1 OS_ACCELERATOR_ENDPOINT_OVERRIDE=http://127.0.0.1:1\n"
		if !withClients {
			return shell
		}
		if err := os.CopyFS(filepath.Join(dir, "python"), os.DirFS("../python")); err != nil {
			t.Fatal(err)
		}
		return shell + "(cd python && python3 -W ignore -c 'import setuptools; setuptools.setup()' -q egg_info)\nexport PYTHONPATH=$PWD/python\n"
	case "state.md": // with the real cloud that is imported
		return cloud + "sed -i 's/^  sim:/  mycloud:/' clouds.yaml\n"
	case "operators.md":
		sys := drivertest.Unpack(t, "../driver/sysfs/testdata/nvidia-p100.tar.gz")
		if err := os.Mkdir(filepath.Join(dir, "captured"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(sys, filepath.Join(dir, "captured", "sys")); err != nil {
			t.Fatal(err)
		}
		return cloud + "touch cyborg.conf nova.conf\n"
	}
	return ""
}

// clientPrograms are what needs the build tag clients.
var clientPrograms = regexp.MustCompile(`(?m)(?:^\s*(?:\w+=\S*\s+)*|\$\()(openstack|python3|terraform|pip) `)

func TestCommandsOfOtherProgramsAreKnown(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"openstack server list\n": true, "cysim check\n  OS_CLOUD=sim A=b openstack server list\n": true, "cysim check --cloud openstack\n": false,
		"provider=$(openstack resource provider list)\n": true,
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
			dir := t.TempDir()
			script := "set -euo pipefail\ntrap 'kill ${CYSIM_PID:-} ${READER_PID:-} 2>/dev/null || true' EXIT\n" + before(t, page, dir)
			for _, b := range blocksOf(t, page) {
				if b.note() == "" && elsewhere(b) == "" && (withClients || !clientPrograms.MatchString(b.text)) {
					script += b.typed()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
			defer cancel()
			command := exec.CommandContext(ctx, bash, "-c", script)
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
			for _, b := range blocksOf(t, page) {
				if page == "clients.md" && withClients && b.language == "text" && !strings.Contains(out.String(), b.text) {
					t.Errorf("%s:%d: the commands did not print this block:\n%s", page, b.line, tail(out.String()))
				}
			}
		})
	}
}

// elsewhere is the test that runs a block, if it is not TestTheCommandsOfThePagesRun.
func elsewhere(b block) string {
	switch {
	case b.page == "real-cloud.md":
		return "../cmd/cysim/cyborg_oracle_test.go"
	case b.page == "../README.md" && b.text == "go test ./...\n":
		return "../.ci/run"
	case b.page == "../README.md", b.page == "first-agent.md", b.page == "test-your-agent.md", b.page == "operators.md" && b.section == "From a machine to a flavor":
		return "stranger_test.go"
	case b.page == "operators.md" && strings.Contains(b.text, "openstack flavor "):
		return "operators_test.go" // the stand-in for Nova makes no flavors
	}
	return ""
}

// What a page says is run, or a comment before it says that it is not, and why.
func TestEveryCommandOfThePagesRunsOrSaysThatItDoesNot(t *testing.T) {
	t.Parallel()
	languages := strings.Fields("go json yaml ini text mermaid python terraform sh console")
	for _, page := range pages(t) {
		for _, b := range blocksOf(t, page) {
			isRun := slices.Contains(commandPages(), page) && b.language == "sh"
			if file := elsewhere(b); file != "" {
				source, err := os.ReadFile(file)
				isRun = err == nil && strings.Contains(string(source), filepath.Base(page))
			}
			switch isCommand := b.language == "sh" || b.language == "console"; {
			case !slices.Contains(languages, b.language):
				t.Errorf("%s:%d: the block is in no known language: %q", page, b.line, b.language)
			case isCommand && !isRun && b.note() == "":
				t.Errorf("%s:%d: no test runs these commands; the line before them has to be: <!-- Not run by CI: ... -->", page, b.line)
			case b.note() != "" && (!isCommand || elsewhere(b) != ""):
				t.Errorf("%s:%d: this block has nothing to run, or is run", page, b.line)
			}
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if visible := regexp.MustCompile(`(?m)^(?:[^<\n].*)?Not run by .*`).FindString(coded.ReplaceAllString(fenced.ReplaceAllString(string(data), ""), "")); visible != "" {
			t.Errorf("%s: a reader sees %q; put it into a comment", page, visible)
		}
		if indented := regexp.MustCompile(`\n\n    \S.*`).FindString(fenced.ReplaceAllString(string(data), "")); indented != "" {
			t.Errorf("%s: an indented block, which no test finds:%s", page, indented)
		}
	}
}

// tail is the end of a text.
func tail(text string) string { return text[max(0, len(text)-4000):] }
