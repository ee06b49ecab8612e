package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var actionRelease = flag.String("action.release", "", "directory with the files of a release that action.yml unpacks; a stand-in without it")

// actionSteps are the scripts of action.yml, by the names of its steps.
func actionSteps(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../action.yml")
	must(t, err)
	var action struct {
		Runs struct {
			Steps []struct {
				Name, Run string
				Env       map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal(data, &action))
	scripts, env := make(map[string]string), make(map[string]string)
	for _, step := range action.Runs.Steps {
		scripts[step.Name] = step.Run
		for name, value := range step.Env {
			env[name] = value
		}
	}
	for name, want := range map[string]string{
		"FLAGS": "inputs.flags", "RELEASE": "inputs.release", "CHECKSUMS": "inputs.checksums", "ACTION": "github.action_path",
	} {
		if env[name] != "${{ "+want+" }}" {
			t.Errorf("%s is %s, want %s", name, env[name], want)
		}
	}
	return scripts
}

// writeRelease writes a release for the named systems, whose archives have a cysim that is this test.
func writeRelease(t *testing.T, dir string, systems ...string) {
	t.Helper()
	executable, err := os.Executable()
	must(t, err)
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	packed := tar.NewWriter(compressed)
	err = packed.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "./cysim", Linkname: executable, Mode: 0o777})
	must(t, errors.Join(err, packed.Close(), compressed.Close()))
	sums := fmt.Sprintf("%064d  cysim-v0.1.0-image.tar\n", 0)
	for _, system := range systems {
		name := "cysim-v0.1.0-" + system + ".tar.gz"
		sums += fmt.Sprintf("%x  %s\n%064d  cysim-v0.1.0-%s.cdx.json\n", sha256.Sum256(archive.Bytes()), name, 0, system)
		must(t, os.WriteFile(filepath.Join(dir, name), archive.Bytes(), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums), 0o600))
}

// runner is a runner of GitHub: the files that a step leaves for further ones.
type runner struct {
	bash, dir string
	env       []string
}

func newRunner(t *testing.T, os string) runner {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "tar", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "a blank") // in the names of files, which are quoted for shells
	mkdir(t, dir)
	arch := map[string]string{"amd64": "X64", "arm64": "ARM64"}[runtime.GOARCH]
	return runner{bash: "bash", dir: dir, env: []string{
		asCommand + "=1", "TMPDIR=" + dir, "RUNNER_TEMP=" + dir, "GITHUB_ENV=" + filepath.Join(dir, "env"), "GITHUB_PATH=" + filepath.Join(dir, "path"),
		"RUNNER_OS=" + os, "RUNNER_ARCH=" + arch, "RELEASE=", "CHECKSUMS=", "ACTION=" + dir,
	}}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
}

// step runs a script as a step, with what earlier steps have added to the environment.
func (r runner) step(t *testing.T, script string, env ...string) (string, error) {
	t.Helper()
	const earlier = `while read -r line; do PATH=$line:$PATH; done < <(cat "$GITHUB_PATH" 2>/dev/null)
while read -r line; do export "$line"; done < <(cat "$GITHUB_ENV" 2>/dev/null)
`
	command := exec.CommandContext(t.Context(), r.bash, "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", earlier+script)
	command.Env, command.Dir = slices.Concat(os.Environ(), r.env, env), r.dir
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestTheActionServesACloud runs what action.yml has for GitHub: further steps find the cloud in their environment.
func TestTheActionServesACloud(t *testing.T) {
	t.Parallel()
	steps, on := actionSteps(t), newRunner(t, map[string]string{"linux": "Linux", "darwin": "macOS"}[runtime.GOOS])
	release := filepath.Join(on.dir, "release")
	mkdir(t, release)
	if *actionRelease != "" {
		release = *actionRelease
	} else {
		writeRelease(t, release, runtime.GOOS+"-"+runtime.GOARCH, "plan9-mips")
	}
	if out, err := on.step(t, steps["Install cysim"], "RELEASE="+release); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := on.step(t, steps["Serve a cloud"], "FLAGS=--cyborg-release zed"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := on.step(t, `test -s "$OS_CLIENT_CONFIG_FILE"; cysim check; kill "$CYSIM_PID"; rm "$CYSIM_LOG"`)
	if err != nil || !strings.Contains(out, "nothing leaked") {
		t.Errorf("a later step: %v: %s", err, out)
	}
}

func TestTheActionInstallsWhatItCanVerify(t *testing.T) {
	t.Parallel()
	install := actionSteps(t)["Install cysim"]
	release, damaged := t.TempDir(), t.TempDir()
	systems := []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}
	writeRelease(t, release, systems...)
	writeRelease(t, damaged, systems...)
	for _, system := range systems {
		must(t, os.WriteFile(filepath.Join(damaged, "cysim-v0.1.0-"+system+".tar.gz"), []byte("damaged"), 0o600))
	}
	server := httptest.NewServer(http.StripPrefix("/v0.1.0", http.FileServer(http.Dir(release))))
	t.Cleanup(server.Close)
	own := filepath.Join(damaged, "SHA256SUMS") // a copy
	for _, tt := range []struct {
		name, os, release, checksums, want string
	}{
		{"a directory", "Linux", release, "", ""},
		{"a URL", "Linux", server.URL + "/v0.1.0", "", ""},
		{"macOS", "macOS", release, "", ""},
		{"checksums elsewhere", "Linux", release, own, ""},
		{"a damaged archive", "Linux", damaged, "", "is not the archive of SHA256SUMS"},
		{"a changed release", "Linux", damaged, filepath.Join(release, "SHA256SUMS"), "is not the archive of SHA256SUMS"},
		{"a system without an archive", "Windows", release, "", "SHA256SUMS does not name one archive for windows-"},
		{"no release there", "Linux", server.URL + "/v0.2.0", "", "404"},
		{"no directory there", "Linux", filepath.Join(release, "none"), "", "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			on := newRunner(t, tt.os)
			out, err := on.step(t, install, "RELEASE="+tt.release, "CHECKSUMS="+tt.checksums)
			if tt.want != "" {
				if err == nil || !strings.Contains(out, tt.want) {
					t.Errorf("got %v: %s; want %s", err, out, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := on.step(t, "cysim version"); err != nil || !strings.HasPrefix(out, "cysim ") {
				t.Errorf("a later step: %v: %s", err, out)
			}
		})
	}
}

// Without a release the action compiles its own clone, or says what is missing.
func TestTheActionCompilesAClone(t *testing.T) {
	t.Parallel()
	install, on := actionSteps(t)["Install cysim"], newRunner(t, "Linux")
	tools := filepath.Join(on.dir, "tools")
	mkdir(t, tools)
	const compiler = "#!/bin/sh\necho \"echo $PWD $*\" >\"$GOBIN/cysim\"; chmod +x \"$GOBIN/cysim\"\n"
	must(t, os.WriteFile(filepath.Join(tools, "go"), []byte(compiler), 0o700))
	if out, err := on.step(t, `PATH=`+"'"+tools+"'"+`:$PATH`+"\n"+install); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := on.step(t, "cysim"); err != nil || out != on.dir+" install ./cmd/cysim\n" {
		t.Errorf("%v: %s", err, out)
	}
	on = newRunner(t, "Linux")
	if out, err := on.step(t, "go() { false; }; command() { false; }\n"+install); err == nil || !strings.Contains(out, "Go is not installed") {
		t.Errorf("without Go: %v: %s", err, out)
	}
}
