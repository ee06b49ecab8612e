package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// providerNames are the names of the resource providers of the cloud of a clouds.yaml, sorted.
func providerNames(t *testing.T, file string) (names []string) {
	t.Helper()
	placement, err := openstack.NewPlacementV1(login(t, file, "sim"), gophercloud.EndpointOpts{Region: "RegionOne"})
	must(t, err)
	pages, err := resourceproviders.List(placement, nil).AllPages(t.Context())
	must(t, err)
	providers, err := resourceproviders.ExtractResourceProviders(pages)
	must(t, err)
	for _, p := range providers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// TestServeLoadsAllDriversOfADirectory has a machine with an accelerator and a card that is skipped.
func TestServeLoadsAllDriversOfADirectory(t *testing.T) {
	t.Parallel()
	machine, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:3d:00.0", Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx"},
		{Address: "0000:3b:00.0", Vendor: "10de", Product: "1eb8", Class: "0300", BootVGA: true},
		{Address: "0000:84:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia",
			MdevTypes: []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 16}}},
	}})
	must(t, err)
	dir := t.TempDir()
	must(t, machine.LayOut(dir))
	conf := writeFile(t, "cyborg.conf", "[DEFAULT]\nhost = compute7\n[gpu_devices]\nenabled_vgpu_types = nvidia-35\n[vgpu_nvidia-35]\ndevice_addresses = 0000:84:00.0\n")
	for name, tt := range map[string]struct {
		flags []string
		want  []string
	}{
		"defaults":                   {nil, []string{"cn0", "cn0_0000:3d:00.0", "cn0_0000:84:00.0"}},
		"a configuration":            {[]string{"--driver-config", conf}, []string{"compute7", "compute7_0000:3d:00.0", "compute7_0000:84:00.0"}},
		"a configuration and a name": {[]string{"--driver-config", conf, "--host", "h"}, []string{"h", "h_0000:3d:00.0", "h_0000:84:00.0"}},
	} {
		file := filepath.Join(t.TempDir(), "clouds.yaml")
		served := start(t, append([]string{"serve", "--sysfs", dir, "--clouds-yaml", file}, tt.flags...)...)
		if diff := cmp.Diff(tt.want, providerNames(t, file)); diff != "" {
			t.Errorf("%s: resource providers (-want +got):\n%s", name, diff)
		}
		served.stop() // the directory is locked until then
		if log := served.stderr.String(); !strings.Contains(log, "0000:3b:00.0") || !strings.Contains(log, "boot_vga is 1") || !strings.Contains(log, "driver=intel_qat devices=1") {
			t.Errorf("%s: the log lacks what is found and left out:\n%s", name, log)
		}
	}
	for _, args := range [][]string{{"serve", "--host", "h"}, {"serve", "--driver-config", conf}, {"serve", "--sysfs", dir, "--driver-config", dir + "/none"}} {
		if status, _, stderr := cysim(t, args...); status != 2 || stderr == "" {
			t.Errorf("%v: status %d, %q", args, status, stderr)
		}
	}
}

// A model whose Nova is configured for a device of Cyborg's starts, and the log names the device and the reason.
func TestServeStartsWithADeviceOfTwoOwners(t *testing.T) {
	t.Parallel()
	model := writeFile(t, "model.json", `{"hosts": [{"name": "cn0", "nova": {"vgpus": [{"address": "0000:3b:00.0"}]}, "sysfs": {"devices": [
		{"address": "0000:3b:00.0", "vendor": "10de", "product": "15f8", "class": "0302"},
		{"address": "0000:5e:00.0", "vendor": "10de", "product": "15f8", "class": "0302"}]}}]}`)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--model", model, "--clouds-yaml", file)
	want := []string{"cn0", "cn0_0000:5e:00.0", "cn0_pci_0000_3b_00_0"}
	if diff := cmp.Diff(want, providerNames(t, file)); diff != "" {
		t.Errorf("resource providers (-want +got):\n%s", diff)
	}
	served.stop()
	for _, part := range []string{"Nova offers it, too", "address=0000:3b:00.0", "resource provider cn0_pci_0000_3b_00_0 carries OWNER_NOVA"} {
		if log := served.stderr.String(); !strings.Contains(log, part) {
			t.Errorf("the log lacks %q:\n%s", part, log)
		}
	}
}
