package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestTheActionServesACloud runs what action.yml has for GitHub: further steps find the cloud in their environment.
func TestTheActionServesACloud(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	data, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Runs struct {
			Steps []struct {
				Name, Run string
				Env       map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(data, &action); err != nil {
		t.Fatal(err)
	}
	steps := action.Runs.Steps
	if len(steps) != 2 || steps[1].Env["FLAGS"] != "${{ inputs.flags }}" {
		t.Fatalf("steps: %+v", steps)
	}
	_, env := program(t)
	dir := filepath.Join(t.TempDir(), "a blank") // in the names of files, which are quoted for shells
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "env")
	command := exec.CommandContext(t.Context(), bash, "-e", "-o", "pipefail", "-c", steps[1].Run)
	command.Env = append(env, "TMPDIR="+dir, "RUNNER_TEMP="+dir, "GITHUB_ENV="+file, "FLAGS=--cyborg-release zed")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	later := exec.CommandContext(t.Context(), bash, "-e", "-c", `while read -r line; do export "$line"; done <"$GITHUB_ENV"
test -s "$OS_CLIENT_CONFIG_FILE"; cysim check; kill "$CYSIM_PID"; rm "$CYSIM_LOG"`)
	later.Env = command.Env
	out, err := later.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "nothing leaked") {
		t.Errorf("a later step: %v: %s", err, text)
	}
}
