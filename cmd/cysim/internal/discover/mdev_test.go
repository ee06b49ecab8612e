package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/cyborgconf"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	t4       = "0000:84:00.0"
	ada      = "0000:3d:00.0"
	adaVF    = "0000:3d:00.4"
	mdevUUID = "11111111-1111-4111-8111-111111111111"
)

// divided is a machine with a card that is divided into mediated devices and one that is divided without.
func divided() sysfs.Description {
	return sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: t4, Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia", MdevTypes: []sysfs.MdevType{{Type: "nvidia-222", Name: "GRID T4-1B", AvailableInstances: 2}}},
		{Address: "0000:85:00.0", Vendor: "10de", Product: "1eb8", Class: "0300", Driver: "nvidia", BootVGA: true, MdevTypes: []sysfs.MdevType{{Type: "nvidia-222", Name: "GRID T4-1B", AvailableInstances: 2}}},
		{Address: ada, Vendor: "10de", Product: "26b9", Class: "0302", Driver: "nvidia", VFs: &sysfs.VFs{Total: 4, Enabled: 4, Offset: 4, Driver: "nvidia",
			VGPUs: &sysfs.VGPUCard{Types: []sysfs.VGPUType{{ID: 1155, Name: "NVIDIA L40S-24Q", FramebufferMiB: 24576, MaxInstances: 1}}}}},
	}}
}

const dividedConf = `[DEFAULT]
host = h
[gpu_devices]
enabled_vgpu_types = nvidia-222, nvidia-1155
[vgpu_nvidia-222]
device_addresses = 0000:84:00.0, 0000:85:00.0
[vgpu_nvidia-1155]
device_addresses = 0000:3d:00.0
max_instances = 2
vgpu_name = NVIDIA L40S-24Q
`

// mdevCommand runs cysim mdev and returns its exit status and what it wrote to standard error.
func mdevCommand(t *testing.T, args ...string) (status int, stderr string) {
	t.Helper()
	var grammar struct {
		Mdev Mdev `cmd:"" help:"."`
	}
	var out, failure bytes.Buffer
	status = command.Run(t.Context(), &grammar, append([]string{"mdev"}, args...), &out, &failure)
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
	return status, failure.String()
}

// TestMdevWritesToTheTree: writes to the kernel, recorded in a plain directory.
func TestMdevWritesToTheTree(t *testing.T) {
	t.Parallel()
	sys, conf := laidOut(t, divided()), writeFile(t, "cyborg.conf", dividedConf)
	card, function := "class/mdev_bus/"+t4+"/mdev_supported_types/nvidia-222/", "bus/pci/devices/"+adaVF+"/nvidia/current_vgpu_type"
	for _, tt := range []struct{ verb, parent, typ, id, file, want string }{
		{"create", t4, "nvidia-222", mdevUUID, card + "create", mdevUUID},
		{"remove", t4, "nvidia-222", mdevUUID, card + "create", mdevUUID}, // it is not there, so nothing is written
		{"create", adaVF, "nvidia-1155", "", function, "1155"},
		{"remove", adaVF, "nvidia-1155", "", function, "0"},
	} {
		args := []string{tt.verb, "--sysfs", sys, "--driver-config", conf, tt.parent, tt.typ}
		if tt.id != "" {
			args = append(args, tt.id)
		}
		if status, stderr := mdevCommand(t, args...); status != 0 || stderr != "" {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
		if got, err := os.ReadFile(filepath.Join(sys, tt.file)); err != nil || string(got) != tt.want {
			t.Errorf("%v: %s has %q, %v, want %q", args, tt.file, got, err, tt.want)
		}
	}
}

func TestMdevRefusesWithAStatus(t *testing.T) {
	t.Parallel()
	sys, conf := laidOut(t, divided()), writeFile(t, "cyborg.conf", dividedConf)
	locked := laidOut(t, divided())
	unlock, err := command.LockTree(locked, true)
	must(t, err)
	defer unlock()
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"create " + t4 + " nvidia-222 nonsense", 2, `mdev uuid "nonsense"`},
		{"create ../../etc nvidia-222 " + mdevUUID, 2, `parent "../../etc"`},
		{"create " + t4 + " ../.. " + mdevUUID, 2, `type "../.."`},
		{"create " + t4 + " nvidia-222", 2, "no driver offers type nvidia-222 on " + t4}, // a vGPU on a card that has none
		{"create mtty mtty-2", 2, "a mediated device has a UUID as the third argument"},
		{"create " + t4 + " nvidia-999 " + mdevUUID, 2, "no driver offers type nvidia-999 on " + t4 + "; it has to be enabled"},
		{"create 0000:85:00.0 nvidia-222 " + mdevUUID, 1, "the host's own display"},
		{"create " + ada + " nvidia-1155", 2, "no driver offers type nvidia-1155 on " + ada},
		{"create 0000:3d:00.7 nvidia-1155", 1, "max_instances"},
		{"create --sysfs " + sys + "/none " + t4 + " nvidia-222 " + mdevUUID, 2, "--sysfs"},
		{"create --sysfs " + locked + " " + t4 + " nvidia-222 " + mdevUUID, 2, "is an agent of this machine already"},
		{"remove --sysfs " + locked + " " + t4 + " nvidia-222 " + mdevUUID, 2, "is an agent of this machine already"},
		{"remove " + t4 + " nvidia-222 nonsense", 2, `mdev uuid "nonsense"`},
		{"remove --driver-config " + writeFile(t, "c.conf", "[agent]\nenabled_drivers = pci_driver\n") + " " + t4 + " nvidia-222 " + mdevUUID, 2, "no driver that could remove it"},
	} {
		verb, rest, _ := strings.Cut(tt.args, " ")
		args := []string{verb}
		for flag, value := range map[string]string{"--sysfs": sys, "--driver-config": conf} {
			if !strings.Contains(rest, flag) {
				args = append(args, flag, value)
			}
		}
		if status, stderr := mdevCommand(t, append(args, strings.Fields(rest)...)...); status != tt.status || !strings.Contains(stderr, tt.want) {
			t.Errorf("mdev %s: status %d, %s, want %d, %s", tt.args, status, stderr, tt.status, tt.want)
		}
	}
	for name, text := range map[string]string{"class/mdev_bus/" + t4 + "/mdev_supported_types/nvidia-222/create": "", "bus/pci/devices/" + adaVF + "/nvidia/current_vgpu_type": "0\n"} {
		if got, err := os.ReadFile(filepath.Join(sys, name)); err != nil || string(got) != text {
			t.Errorf("%s has %q, %v after refusals", name, got, err)
		}
	}
}

// onKernel are the drivers of a configuration on a tree with the effects of a kernel.
func onKernel(t *testing.T) (*machine, *sysfs.Memory) {
	t.Helper()
	tree, err := sysfs.Generate(divided())
	must(t, err)
	config, err := cyborgconf.Parse([]byte(dividedConf))
	must(t, err)
	config.EnabledDrivers = builtin.Hardware()
	drivers, err := builtin.New(config, tree)
	must(t, err)
	return &machine{tree: tree, drivers: drivers}, tree
}

// TestMdevOnAKernel: the verbs reach the same state when they are repeated, and the kernel's
// refusals are reported.
func TestMdevOnAKernel(t *testing.T) {
	t.Parallel()
	m, tree := onKernel(t)
	mdev := func(n int) instance {
		return instance{mdev: driver.Mdev{UUID: fmt.Sprintf("%08d-1111-4111-8111-111111111111", n), Parent: t4, Type: "nvidia-222"}}
	}
	vgpu := func(function uint8) instance {
		return instance{vgpu: driver.VGPU{Function: driver.PCIAddress{Bus: 0x3d, Function: function}, Type: 1155}}
	}
	elsewhere := mdev(1)
	elsewhere.mdev.Parent = "0000:86:00.0"
	for _, step := range []struct {
		name string
		do   func(*machine, context.Context, instance) error
		of   instance
		want error
	}{
		{"create", (*machine).create, mdev(1), nil},
		{"create again", (*machine).create, mdev(1), nil},
		{"create another", (*machine).create, mdev(2), nil},
		{"create one too many", (*machine).create, mdev(3), syscall.ENOSPC},
		{"create again on a full card", (*machine).create, mdev(2), nil},
		{"set", (*machine).create, vgpu(4), nil},
		{"set again: it may belong to another program", (*machine).create, vgpu(4), fs.ErrExist},
		{"set one too many", (*machine).create, vgpu(5), syscall.ENOSPC},
		{"remove", (*machine).remove, mdev(1), nil},
		{"remove again", (*machine).remove, mdev(1), nil},
		{"clear", (*machine).remove, vgpu(4), nil},
		{"clear again", (*machine).remove, vgpu(4), nil},
		{"create in the room", (*machine).create, mdev(3), nil},
		{"set in the room", (*machine).create, vgpu(5), nil},
	} {
		if err := step.do(m, t.Context(), step.of); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	elsewhere.mdev.UUID = mdev(2).mdev.UUID
	if err := m.remove(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "is of type nvidia-222 on "+t4) {
		t.Errorf("remove by another parent: %v", err)
	}
	if diff := cmp.Diff([]driver.Mdev{mdev(2).mdev, mdev(3).mdev}, tree.Mdevs()); diff != "" {
		t.Errorf("mediated devices (-want +got):\n%s", diff)
	}
	vgpus, err := sysfs.VGPUs(tree)
	if diff := cmp.Diff(map[driver.PCIAddress]int{vgpu(5).vgpu.Function: 1155}, vgpus); diff != "" || err != nil {
		t.Errorf("%v, vGPUs (-want +got):\n%s", err, diff)
	}
}
