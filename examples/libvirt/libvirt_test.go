package libvirt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const instance = "0a1b2c3d-0000-4000-8000-000000000001"

// hostVariable has the directory of the host of the virsh that this program then is.
const hostVariable = "LIBVIRT_EXAMPLE_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(hostVariable); dir != "" {
		os.Exit(virsh(dir, os.Args[4:])) // after --quiet --connect URI
	}
	os.Exit(m.Run())
}

// virsh is as much of virsh 9.0 as the hypervisor uses. A file of the directory is a domain or device, or says that it is active.
func virsh(dir string, args []string) int {
	command, subject := args[0], args[len(args)-1]
	document, _ := io.ReadAll(os.Stdin)
	name := filepath.Join(dir, subject)
	active := name + ".active"
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	refuse := func(text string) int { fmt.Fprintln(os.Stderr, "error: "+text); return 1 }
	write := func(path string) int { return refuseIf(os.WriteFile(path, document, 0o600)) }
	calls, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return refuse(err.Error())
	}
	fmt.Fprintln(calls, command)

	isDomain := slices.Contains([]string{"dumpxml", "domstate", "start", "shutdown", "destroy", "undefine"}, command)
	switch {
	case exists(filepath.Join(dir, "down")):
		return refuse("failed to connect to the hypervisor")
	case isDomain && !exists(name):
		return refuse("failed to get domain '" + subject + "'")
	}
	switch command {
	case "dumpxml":
		domain, err := os.ReadFile(name)
		fmt.Println(string(domain))
		return refuseIf(err)
	case "domstate":
		fmt.Println(map[bool]string{true: "running", false: "shut off"}[exists(active)])
		return 0
	case "define":
		return write(filepath.Join(dir, between(document, "<uuid>", "</uuid>")))
	case "start", "nodedev-start":
		if exists(active) {
			return refuse("Domain is already active")
		}
		return write(active)
	case "shutdown":
		if exists(filepath.Join(dir, "stuck")) {
			return 0
		}
		return refuseIf(os.Remove(active))
	case "destroy", "nodedev-destroy":
		if !exists(active) {
			return refuse("Requested operation is not valid: domain is not running")
		}
		return refuseIf(os.Remove(active))
	case "undefine", "nodedev-undefine":
		return refuseIf(os.Remove(name))
	case "nodedev-define":
		parent := between(document, "<parent>pci_", "</parent>")
		device := filepath.Join(dir, "mdev_"+strings.ReplaceAll(between(document, "<uuid>", "</uuid>"), "-", "_")+"_"+parent)
		if exists(device) {
			return refuse("Requested operation is not valid: the device is defined")
		}
		return write(device)
	case "nodedev-list":
		devices, err := filepath.Glob(filepath.Join(dir, "mdev_*"))
		for _, d := range devices {
			d = strings.TrimSuffix(d, ".active")
			if subject == "--inactive" != exists(d+".active") {
				fmt.Println(filepath.Base(d))
			}
		}
		return refuseIf(err)
	case "nodedev-autostart":
		return 0
	}
	return refuse("unknown command: '" + command + "'")
}

func refuseIf(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

func between(document []byte, begin, end string) string {
	_, text, _ := strings.Cut(string(document), begin)
	text, _, _ = strings.Cut(text, end)
	return text
}

// newHost returns the hypervisor of a host, and its directory.
func newHost(t *testing.T) (Hypervisor, string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(hostVariable, dir)
	return Hypervisor{URI: func(host string) string { return "test://" + host }, Command: os.Args[0]}, dir
}

// files lists what a host has, without the record of calls.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		if e.Name() != "calls" {
			names = append(names, e.Name())
		}
	}
	return names
}

func mark(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHypervisor(t *testing.T) {
	h, dir := newHost(t)
	i := spawn.Instance{UUID: instance, Host: "cn0"}
	domain := []byte("<domain><uuid>" + instance + "</uuid></domain>")
	steps := []struct {
		name    string
		call    func() error
		noGuest bool
		want    []string
	}{
		{"a missing guest is not destroyed", func() error { return h.Destroy(t.Context(), i) }, false, []string{}},
		{"nor undefined", func() error { return h.Undefine(t.Context(), i) }, false, []string{}},
		{"it has no domain", func() error { _, _, err := h.Domain(t.Context(), i); return err }, true, []string{}},
		{"nor can it be started", func() error { return h.Start(t.Context(), i) }, true, []string{}},
		{"define", func() error { return h.Define(t.Context(), i, domain) }, false, []string{instance}},
		{"a guest that is off is not destroyed", func() error { return h.Destroy(t.Context(), i) }, false, []string{instance}},
		{"start", func() error { return h.Start(t.Context(), i) }, false, []string{instance, instance + ".active"}},
		{"define a guest that runs", func() error { return h.Define(t.Context(), i, domain) }, false, []string{instance, instance + ".active"}},
		{"shut down", func() error { return h.Shutdown(t.Context(), i) }, false, []string{instance}},
		{"start again", func() error { return h.Start(t.Context(), i) }, false, []string{instance, instance + ".active"}},
		{"destroy", func() error { return h.Destroy(t.Context(), i) }, false, []string{instance}},
		{"undefine", func() error { return h.Undefine(t.Context(), i) }, false, []string{}},
	}
	for _, step := range steps {
		err := step.call()
		if errors.Is(err, spawn.ErrNoGuest) != step.noGuest || err != nil && !step.noGuest {
			t.Errorf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, files(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestAGuestThatIgnoresAShutdownStillRuns(t *testing.T) {
	h, dir := newHost(t)
	h.ShutdownTimeout = 1
	mark(t, dir, instance)
	mark(t, dir, instance+".active")
	mark(t, dir, "stuck")
	i := spawn.Instance{UUID: instance, Host: "cn0"}
	if err := h.Shutdown(t.Context(), i); err == nil {
		t.Error("no error")
	}
	if _, running, err := h.Domain(t.Context(), i); err != nil || !running {
		t.Errorf("running %t, %v", running, err)
	}
}

// A host that does not answer is not one without guests.
func TestAHostThatDoesNotAnswerIsAnError(t *testing.T) {
	h, dir := newHost(t)
	mark(t, dir, "down")
	i := spawn.Instance{UUID: instance, Host: "cn0"}
	_, _, err := h.Domain(t.Context(), i)
	for name, err := range map[string]error{"domain": err, "destroy": h.Destroy(t.Context(), i), "undefine": h.Undefine(t.Context(), i)} {
		if err == nil || errors.Is(err, spawn.ErrNoGuest) || !strings.Contains(err.Error(), "cn0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The guest of a vGPU, from its spawn to its deletion, next to a Cyborg that creates no mediated devices.
func TestAGuestWithAMediatedDevice(t *testing.T) {
	h, dir := newHost(t)
	cloud := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{MdevCreation: fakecyborg.MdevsByNova}})
	flow, err := spawn.NewFromProvider(cloud.Provider(t), spawn.WithServiceProvider(cloud.ServiceProvider(t)), spawn.WithHypervisor(h))
	if err != nil {
		t.Fatal(err)
	}
	operations, err := flow.Operations()
	if err != nil {
		t.Fatal(err)
	}
	request := spawn.Request{Instance: instance, Flavor: requestspec.Flavor{
		Name: "vgpu", VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "vgpu"},
	}}
	result, err := flow.Run(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.DefineGuest(sim.Guest{UUID: instance, Host: result.Host, Domain: string(result.Domain)}); err != nil {
		t.Fatal(err)
	}
	mdev := "mdev_" + strings.ReplaceAll(result.ARQs[0].AttachHandleUUID, "-", "_") + "_0000_af_00_0"
	spawned := []string{instance, instance + ".active", mdev, mdev + ".active"}
	if diff := cmp.Diff(spawned, files(t, dir)); diff != "" {
		t.Errorf("after the spawn (-want +got):\n%s", diff)
	}

	// After a reboot of the host the definitions are there.
	for _, name := range []string{instance, mdev} {
		if err := os.Remove(filepath.Join(dir, name+".active")); err != nil {
			t.Fatal(err)
		}
	}
	i := spawn.InstanceOf(request, result)
	if err := operations.ResumeAfterHostReboot(t.Context(), i); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(spawned, files(t, dir)); diff != "" {
		t.Errorf("after the reboot (-want +got):\n%s", diff)
	}

	if err := operations.Delete(t.Context(), i); err != nil {
		t.Error(err)
	}
	cloud.RemoveGuest(instance)
	cloud.CheckNoLeaks(t)
	if diff := cmp.Diff([]string{}, files(t, dir)); diff != "" {
		t.Errorf("after the deletion (-want +got):\n%s", diff)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile("(?m)^nodedev-define$").FindAll(calls, -1)); n != 1 {
		t.Errorf("the device was defined %d times", n)
	}
}
