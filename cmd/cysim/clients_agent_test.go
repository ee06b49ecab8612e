//go:build clients

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const slice = "11111111-1111-4111-8111-111111111111"

// agentHost is a machine with a whole card and a divided one, and the program of the agent on it.
type agentHost struct{ dir, sys, conf string }

func newAgentHost(t *testing.T) agentHost {
	t.Helper()
	h := agentHost{dir: t.TempDir()}
	h.sys, h.conf = filepath.Join(h.dir, "sys"), filepath.Join(h.dir, "cyborg.conf")
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:3b:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "nvidia"},
		{Address: "0000:84:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia", MdevTypes: []sysfs.MdevType{{Type: "nvidia-222", Name: "GRID T4-1B", AvailableInstances: 2}}},
	}})
	if err == nil {
		err = errors.Join(os.Mkdir(h.sys, 0o700), tree.LayOut(h.sys))
	}
	must(t, err)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(h.dir, "cysim"), ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	h.write(t, "cysim.conf", "[DEFAULT]\nhost = compute1\n[gpu_devices]\nenabled_vgpu_types = nvidia-222\n[vgpu_nvidia-222]\ndevice_addresses = 0000:84:00.0\n")
	// The sysfs of the agent's host is /sys; the script adds an argument with the test's.
	h.write(t, "cysim.sh", fmt.Sprintf("#!/bin/sh\nverb=$1; shift\n[ $verb = mdev ] && { verb=\"mdev $1\"; shift; }\nexec %s/cysim $verb --sysfs %s \"$@\"\n", h.dir, h.sys))
	h.write(t, "cyborg.conf", fmt.Sprintf("[cysim]\nprogram = %s/cysim.sh\nconfig_file = %s/cysim.conf\n", h.dir, h.dir))
	return h
}

func (h agentHost) write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o700))
}

// agent does what Cyborg's agent does with the driver, with upstream's objects if they are installed.
func (h agentHost) agent(t *testing.T, verb ...string) (stdout, stderr string, err error) {
	t.Helper()
	const python = "/usr/bin/python3"
	modules := []string{"../../examples/cyborgdriver"}
	if exec.CommandContext(t.Context(), python, "-c", "import cyborg.objects").Run() != nil {
		modules = append(modules, "testdata/upstream")
	}
	command := exec.CommandContext(t.Context(), python, append([]string{"-B", "testdata/upstream/agent.py", h.conf}, verb...)...)
	command.Env = []string{"PYTHONPATH=" + strings.Join(modules, ":"), "PATH=/usr/bin:/bin"}
	var out, failure bytes.Buffer
	command.Stdout, command.Stderr = &out, &failure
	err = command.Run()
	return out.String(), failure.String(), err
}

// TestTheDriverForTheRealAgent: the objects that the agent gets are those that cysim prints, field by field,
// and mediated devices are made by cysim. Debian 12 has no package of Cyborg's agent; then a
// double replaces upstream's objects.
func TestTheDriverForTheRealAgent(t *testing.T) {
	h := newAgentHost(t)
	got, stderr, err := h.agent(t, "discover")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(h.dir, "cysim.sh"), "discover", "--driver-config", filepath.Join(h.dir, "cysim.conf"), "-o", "driver-objects").Output()
	must(t, err)
	var objects, want []map[string]any
	if err := errors.Join(json.Unmarshal([]byte(got), &objects), json.Unmarshal(printed, &want)); err != nil || len(want) != 2 {
		t.Fatalf("%d devices, %v", len(want), err)
	}
	if diff := cmp.Diff(want, objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	create := filepath.Join(h.sys, "class/mdev_bus/0000:84:00.0/mdev_supported_types/nvidia-222/create")
	for _, verb := range []string{"create", "remove"} {
		if _, stderr, err := h.agent(t, verb, "0000:84:00.0", "nvidia-222", slice); err != nil {
			t.Errorf("%s: %v: %s", verb, err, stderr)
		}
		if text, err := os.ReadFile(create); err != nil || string(text) != slice {
			t.Errorf("%s: create has %q, %v", verb, text, err)
		}
	}
}

// TestTheAgentReportsNothingIfCysimFails: what Cyborg knows stays.
func TestTheAgentReportsNothingIfCysimFails(t *testing.T) {
	h := newAgentHost(t)
	for name, tt := range map[string]struct {
		change func()
		verb   []string
		want   string
	}{
		"a type that is not offered": {func() {}, []string{"create", "0000:84:00.0", "nvidia-223", slice}, "no driver offers type nvidia-223 on 0000:84:00.0"},
		"no program":                 {func() { h.write(t, "cyborg.conf", "[cysim]\nprogram = /nonexistent\n") }, []string{"discover"}, "/nonexistent"},
		"a bad configuration": {func() {
			h.write(t, "cysim.conf", "[gpu_devices]\nenabled_vgpu_types = nvidia-222\n")
		}, []string{"discover"}, "Missing device addresses config for vgpu type nvidia-222"},
	} {
		t.Run(name, func(t *testing.T) {
			saved := map[string][]byte{}
			for _, file := range []string{"cyborg.conf", "cysim.conf"} {
				saved[file], _ = os.ReadFile(filepath.Join(h.dir, file))
			}
			tt.change()
			if stdout, stderr, err := h.agent(t, tt.verb...); err == nil || stdout != "" || !strings.Contains(stderr, "CysimError: ") || !strings.Contains(stderr, tt.want) {
				t.Errorf("%v, printed %q, %s", err, stdout, stderr)
			}
			for file, text := range saved {
				h.write(t, file, string(text))
			}
		})
	}
}
