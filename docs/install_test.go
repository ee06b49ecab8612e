//go:build clients

package docs_test

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	modulePath    = "github.com/gocyborg/gocyborg"
	moduleVersion = "v0.1.0"
)

// fileProxy makes a module proxy that has the clone as a released version.
func fileProxy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	versions := filepath.Join(dir, modulePath, "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"list": moduleVersion + "\n", moduleVersion + ".info": `{"Version": "` + moduleVersion + `", "Time": "2026-01-01T00:00:00Z"}`, moduleVersion + ".mod": string(goMod),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Create(filepath.Join(versions, moduleVersion+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipClone(t, file)
	return "file://" + dir
}

// zipClone writes the files of the clone as the go command wants them, without the module in examples/npu.
func zipClone(t *testing.T, to io.Writer) {
	t.Helper()
	list, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("not a clone: ", err)
	}
	archive := zip.NewWriter(to)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		info, err := os.Lstat("../" + name)
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(name, "examples/npu/") {
			continue
		}
		data, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := archive.Create(modulePath + "@" + moduleVersion + "/" + name)
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

// A stranger's module: the install lines of the README as they stand, then its fixture as the first test.
func TestTheREADMEInstallsAndItsFixtureRuns(t *testing.T) {
	t.Parallel()
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	work := filepath.Join(home, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GOPROXY="+fileProxy(t)+",file://"+filepath.Join(strings.TrimSpace(string(cache)), "cache", "download"),
		"GOSUMDB=off", "GOFLAGS=-modcacherw -trimpath", "GOMODCACHE="+filepath.Join(home, "mod"), "GOBIN="+filepath.Join(home, "bin"), "GOWORK=off")
	run := func(line string) {
		command := exec.CommandContext(t.Context(), "sh", "-c", line)
		command.Dir, command.Env = work, env
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, tail(string(out)))
		}
	}
	run("go mod init example.org/agent")
	for _, b := range blocksOf(t, "../README.md") {
		for line := range strings.Lines(b.text) {
			if command, ok := strings.CutPrefix(line, "$ "); ok && b.language == "console" {
				run(command)
			}
		}
		if b.language == "go" && strings.Contains(b.text, "\npackage fixture_test\n") {
			if err := os.WriteFile(filepath.Join(work, "fixture_test.go"), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	run("go mod tidy")
	run("go test .")
	run(filepath.Join(home, "bin", "cysim") + " --version | grep -F " + moduleVersion)
}
