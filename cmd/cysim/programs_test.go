package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A driver that is a program is enabled and configured as any other. The test is not parallel: a program
// that was just written is busy while another process starts.
func TestServeCallsTheProgramOfADriver(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	program := write("acme", "#!/bin/sh\necho '{\"rocky\": {\"0000:3b:00.0\": {\"type\": \"AICHIP\", \"vendor\": \"acme\", \"product\": \"NPU\"}}}'\n", 0o700)
	config := write("drivers.json", `{"enabled_drivers": ["command_driver"], "sections": {"command_driver": {"program": "`+program+`"}}}`, 0o600)
	must(t, os.MkdirAll(filepath.Join(dir, "sys", "bus"), 0o700))
	clouds := filepath.Join(dir, "clouds.yaml")
	start(t, "serve", "--clouds-yaml", clouds, "--sysfs", filepath.Join(dir, "sys"), "--driver-config", config, "--host", "compute7")
	if diff := cmp.Diff([]string{"compute7", "compute7_0000:3b:00.0"}, providerNames(t, clouds)); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	_, found, _ := cysim(t, "discover", "--sysfs", filepath.Join(dir, "sys"), "--driver-config", config)
	if !slices.ContainsFunc(strings.Split(found, "\n"), func(line string) bool {
		return strings.Contains(line, "0000:3b:00.0") && strings.Contains(line, "CUSTOM_ACCELERATOR_AICHIP")
	}) {
		t.Errorf("discover:\n%s", found)
	}
}
