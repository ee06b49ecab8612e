//go:build clients

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPytestPlugin runs the tests of python/, with the plugin found by its entry point. Debian: python3-pytest, and
// python3-setuptools, which openstacksdk needs.
func TestPytestPlugin(t *testing.T) {
	t.Parallel()
	_, env := program(t)
	plugin := t.TempDir()
	must(t, os.CopyFS(plugin, os.DirFS("../../python")))
	env = append(env, "PYTHONPATH="+plugin, "PYTHONWARNINGS=ignore", "TMPDIR="+t.TempDir())
	for _, args := range [][]string{
		{"-c", "import setuptools; setuptools.setup()", "-q", "egg_info"}, // as pip install --editable
		{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", filepath.Join(t.TempDir(), "tests")},
	} {
		command := exec.CommandContext(t.Context(), "/usr/bin/python3", args...)
		command.Env, command.Dir = env, plugin
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}
