package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// TestTheBitstreamLoaderIsCalled has loaders that do nothing. One of them fails.
func TestTheBitstreamLoaderIsCalled(t *testing.T) {
	t.Parallel()
	const image = "cccccccc-0000-4000-8000-000000000001"
	machine, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{{
		Address: "0000:3b:00.0", Vendor: "8086", Product: "0b30", Class: "1200", Driver: "dfl-pci", FPGA: &sysfs.FPGA{
			DFL: true, InterfaceID: "9926ab6d6c925a68aabca7d84c545738", Ports: []sysfs.FPGAPort{{AFUID: "c6aa954a9b914a37abc11d9f0709dcc3"}},
		},
	}}})
	must(t, err)
	dir := t.TempDir()
	must(t, machine.LayOut(dir))
	model := writeJSON(t, "model.json", map[string]any{"images": []map[string]any{{"id": image, "data": `{"afu-image": {"interface-uuid": "9926ab6d-6c92-5a68-aabc-a7d84c545738",
		"accelerator-clusters": [{"accelerator-type-uuid": "d8424dc4-a4a3-c413-f89e-433683f9040b"}]}}`}}})
	config := func(loader string) string {
		return writeJSON(t, "drivers.json", map[string]any{"fpga": map[string]any{"bitstream_loader": loader}})
	}
	for name, tt := range map[string]struct {
		flags []string
		want  string
	}{
		"none":                          {nil, "--bitstream-loader"},
		"one that fails":                {[]string{"--bitstream-loader", "/bin/false"}, "bitstream loader: /bin/false: exit status 1"},
		"one that loads nothing":        {[]string{"--bitstream-loader", "/bin/true"}, "c6aa954a9b914a37abc11d9f0709dcc3"},
		"of the drivers' configuration": {[]string{"--driver-config", config("/bin/false"), "--driver-writes"}, "bitstream loader: /bin/false: exit status 1"},
	} {
		clouds := filepath.Join(t.TempDir(), "clouds.yaml")
		served := start(t, append([]string{"serve", "--model", model, "--sysfs", dir, "--clouds-yaml", clouds}, tt.flags...)...)
		client, err := cyborgclient.New(login(t, clouds, "sim"))
		must(t, err)
		parts, err := client.ListDeployables(t.Context(), cyborgclient.ListDeployablesOpts{})
		if err != nil || len(parts) != 1 {
			t.Fatalf("%s: deployables %v, %v", name, parts, err)
		}
		if _, err := client.ProgramDeployable(t.Context(), parts[0].UUID, image); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		served.stop()
	}
	for name, args := range map[string][]string{
		"a loader without hardware":       {"serve", "--bitstream-loader", "/bin/true"},
		"a loader that is not there":      {"serve", "--sysfs", dir, "--bitstream-loader", "/nonexistent/loader"},
		"a loader that only a file names": {"serve", "--sysfs", dir, "--driver-config", config("/bin/true")},
		"a loader that only a model names": {"serve", "--model", writeJSON(t, "hosts.json", map[string]any{"hosts": []any{map[string]any{
			"name": "cn0", "sysfs": map[string]any{}, "drivers": map[string]any{"fpga": map[string]any{"bitstream_loader": "/bin/true"}}}}})},
	} {
		if status, _, stderr := cysim(t, args...); status != 2 || !strings.Contains(stderr, "loader") {
			t.Errorf("%s: status %d, %q", name, status, stderr)
		}
	}
}

// writeJSON returns the name of a file.
func writeJSON(t *testing.T, name string, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	must(t, err)
	return writeFile(t, name, string(data))
}
