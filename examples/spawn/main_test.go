package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// runSpawn runs the program.
func runSpawn(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	status = run(t.Context(), args, &out, &errOut)
	return status, out.String(), errOut.String()
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryProfileOfTheEmbeddedCloud(t *testing.T) {
	t.Parallel()
	tests := []struct {
		profile     string
		wantDevices int
		wantText    string
	}{
		{"gpu", 1, `type="pci"`},
		{"vgpu", 1, `type="mdev"`},
		{"fpga", 1, `type="pci"`},
		{"fake", 0, "skipped: the handle has no hardware"},
		{"mixed", 4, `type="mdev"`},
	}
	for _, tt := range tests {
		t.Run(tt.profile, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := runSpawn(t, "--profile", tt.profile)
			if status != 0 || stderr != "" {
				t.Fatalf("exit %d, stderr %q", status, stderr)
			}
			for _, want := range []string{tt.wantText, "candidates", "Cyborg -> Nova", "Nova -> spawn", "</domain>", "Bound"} {
				if !strings.Contains(stdout, want) {
					t.Errorf("output lacks %q:\n%s", want, stdout)
				}
			}
			status, domain, _ := runSpawn(t, "--profile", tt.profile, "--xml", "-")
			devices, err := domainxml.Read([]byte(domain))
			if status != 0 || err != nil || len(devices) != tt.wantDevices {
				t.Errorf("--xml -: exit %d, %d devices, %v; want %d devices and nothing but the domain", status, len(devices), err, tt.wantDevices)
			}
		})
	}
}

func TestTheSameCommandPrintsTheSameDomain(t *testing.T) {
	t.Parallel()
	_, first, _ := runSpawn(t, "--profile", "mixed", "--xml", "-")
	_, second, _ := runSpawn(t, "--profile", "mixed", "--xml", "-")
	if first == "" || first != second {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
}

func TestJSONIsOneDocument(t *testing.T) {
	t.Parallel()
	tests := []struct {
		profile               string
		wantStatus, wantARQs  int
		wantRequests, wantErr bool
	}{
		{profile: "mixed", wantStatus: 0, wantARQs: 4, wantRequests: true},
		{profile: "nope", wantStatus: 2, wantRequests: true, wantErr: true},
		{profile: "./nope.json", wantStatus: 2, wantErr: true},
	}
	for _, tt := range tests {
		status, stdout, _ := runSpawn(t, "--profile", tt.profile, "-o", "json")
		var doc struct {
			ARQs     []any             `json:"arqs"`
			Devices  map[string]string `json:"devices"`
			Error    string            `json:"error"`
			Requests []sim.Exchange    `json:"requests"`
		}
		dec := json.NewDecoder(strings.NewReader(stdout))
		if err := dec.Decode(&doc); err != nil || dec.More() {
			t.Fatalf("%s: not one JSON document (%v):\n%s", tt.profile, err, stdout)
		}
		if status != tt.wantStatus || len(doc.ARQs) != tt.wantARQs || len(doc.Devices) != tt.wantARQs ||
			(doc.Error != "") != tt.wantErr || (len(doc.Requests) > 0) != tt.wantRequests {
			t.Errorf("%s: exit %d with document %s", tt.profile, status, stdout)
		}
	}
}

func TestDiagramShowsTheRequestsBetweenServices(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "d.mmd")
	if status, _, stderr := runSpawn(t, "--profile", "gpu", "--diagram", path); status != 0 {
		t.Fatal(stderr)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sequenceDiagram\n", "client->>Placement: GET /allocation_candidates", "client->>Cyborg: PATCH", "Cyborg->>Nova: POST"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("diagram lacks %q:\n%s", want, data)
		}
	}
}

func TestDomainIsMergedAndNotReprinted(t *testing.T) {
	t.Parallel()
	own := `<domain type="kvm"><name>mine</name><!-- note --><devices/></domain>`
	status, stdout, stderr := runSpawn(t, "--profile", "gpu", "--domain", file(t, "d.xml", own), "--xml", "-")
	if status != 0 || !strings.HasPrefix(stdout, `<domain type="kvm"><name>mine</name><!-- note --><devices>`) {
		t.Errorf("exit %d, %s%s", status, stdout, stderr)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	empty, bare := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(bare, "bus", "pci", "devices"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name       string
		args       []string
		want       int
		wantStderr string
	}{
		{"unknown flag", []string{"--nope"}, 2, "--nope"},
		{"unknown profile", []string{"--profile", "nope"}, 2, "nope"},
		{"profile file missing", []string{"--profile", "./nope.json"}, 2, "nope.json"},
		{"profile file is no JSON", []string{"--profile", file(t, "p.json", "{")}, 2, "p.json"},
		{"trait-only group", []string{"--profile", file(t, "p.json", `{"name":"x","groups":[{"trait:CUSTOM_A":"required"}]}`)}, 2, "group 0"},
		{"amount zero", []string{"--profile", file(t, "p.json", `{"name":"x","groups":[{"resources:PGPU":"0"}]}`)}, 2, "resources:PGPU"},
		{"negative amount", []string{"--profile", file(t, "p.json", `{"name":"x","groups":[{"resources:PGPU":"-1"}]}`)}, 2, "resources:PGPU"},
		{"unknown class", []string{"--profile", file(t, "p.json", `{"name":"x","groups":[{"resources:GPUS":"1"}]}`)}, 2, "GPUS"},
		{"bad trait", []string{"--profile", file(t, "p.json", `{"name":"x","groups":[{"resources:PGPU":"1","trait:CUSTOM_a-b":"required"}]}`)}, 2, "CUSTOM_a-b"},
		{"unknown field", []string{"--profile", file(t, "p.json", `{"name":"x","groups":[{"resources:PGPU":"1"}],"extra":1}`)}, 2, "extra"},
		{"another profile of that name", []string{"--profile", file(t, "p.json", `{"name":"gpu","groups":[{"resources:PGPU":"2"}]}`)}, 2, "gpu"},
		{"no room", []string{"--profile", file(t, "p.json", `{"name":"x","groups":[{"resources:PGPU":"64"}]}`)}, 3, "host cn1: group device_profile_0"},
		{"domain missing", []string{"--domain", "/nonexistent.xml"}, 2, "nonexistent.xml"},
		{"domain is empty", []string{"--domain", file(t, "d.xml", "")}, 2, "empty"},
		{"domain is no domain", []string{"--domain", file(t, "d.xml", "<network/>")}, 2, "domain"},
		{"sysfs missing", []string{"--sysfs", filepath.Join(empty, "nope")}, 2, "nope"},
		{"sysfs is a file", []string{"--sysfs", file(t, "f", "x")}, 2, "sysfs"},
		{"sysfs is none", []string{"--sysfs", empty}, 2, "sysfs"},
		{"sysfs without hardware", []string{"--sysfs", bare}, 3, "no allocation candidates"},
		{"host without sysfs", []string{"--host", "h"}, 2, "--sysfs"},
		{"driver-config is no configuration", []string{"--sysfs", bare, "--driver-config", file(t, "c.json", `{"qats": {}}`)}, 2, "qats"},
		{"instance is no UUID", []string{"--instance", "vm1"}, 2, "--instance"},
		{"cloud without instance", []string{"--cloud", "x"}, 2, "--instance"},
		{"cloud unknown", []string{"--cloud", "nope", "--instance", "0a1b2c3d-0000-4000-8000-000000000001"}, 2, "nope"},
		{"cloud with sysfs", []string{"--cloud", "x", "--sysfs", "/sys", "--instance", "0a1b2c3d-0000-4000-8000-000000000001"}, 2, "--sysfs"},
		{"cloud with a diagram", []string{"--cloud", "x", "--diagram", "d.mmd", "--instance", "0a1b2c3d-0000-4000-8000-000000000001"}, 2, "--diagram"},
		{"release alone", []string{"--release"}, 2, "--cloud"},
		{"service-cloud alone", []string{"--service-cloud", "x"}, 2, "--cloud"},
		{"timeout zero", []string{"--timeout", "0s"}, 2, "arq_binding_timeout"},
		{"timeout in parts of seconds", []string{"--timeout", "1.5"}, 2, "--timeout"},
		{"nova.conf with zero", []string{"--nova-conf", file(t, "nova-cpu.conf", "[DEFAULT]\narq_binding_timeout=0\n")}, 2, "arq_binding_timeout"},
		{"xml cannot be written", []string{"--profile", "gpu", "--xml", filepath.Join(empty, "no", "dir.xml")}, 2, "--xml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := runSpawn(t, tt.args...)
			if status != tt.want || !strings.Contains(stderr, tt.wantStderr) {
				t.Errorf("exit %d, stderr %q; want exit %d naming %q\n%s", status, stderr, tt.want, tt.wantStderr, stdout)
			}
		})
	}
}

func TestAgainstACloudOfCloudsYAML(t *testing.T) {
	// Not parallel: clouds.yaml is found through the environment.
	cloud := simcloud.Run(t)
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	entry := func(user, project string) string {
		return fmt.Sprintf("{region_name: RegionOne, auth: {auth_url: %q, username: %s, password: secret, project_name: %s, user_domain_name: Default, project_domain_name: Default}}",
			server.URL+"/identity/v3", user, project)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file(t, "clouds.yaml",
		"clouds:\n  sim: "+entry("admin", "admin")+"\n  sim-svc: "+entry("nova", "service")+"\n"))
	const instance, typo = "0a1b2c3d-0000-4000-8000-000000000002", "0a1b2c3d-0000-4000-8000-000000000003"
	flow, err := spawn.NewFromProvider(cloud.Provider(t)) // plays Nova, which made the server
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: requestspec.Flavor{Name: "m1", VCPUs: 1, MemoryMB: 512, RootGB: 1}}); err != nil {
		t.Fatal(err)
	}
	held := cloud.Placement.Allocations()

	status, _, stderr := runSpawn(t, "--cloud", "sim", "--instance", typo, "--profile", "gpu")
	if status != 2 || !strings.Contains(stderr, "has none") {
		t.Errorf("a server that does not exist: exit %d, %s", status, stderr)
	}
	if diff := cmp.Diff(held, cloud.Placement.Allocations()); diff != "" {
		t.Errorf("allocations after a mistyped UUID (-want +got):\n%s", diff)
	}

	status, _, stderr = runSpawn(t, "--cloud", "sim", "--instance", instance, "--profile", "gpu")
	if status != 6 || !strings.Contains(stderr, "service token") || !strings.Contains(stderr, "--service-cloud") {
		t.Errorf("without service token: exit %d, %s", status, stderr)
	}
	if diff := cmp.Diff(held, cloud.Placement.Allocations()); diff != "" {
		t.Errorf("allocations after a failure (-want +got):\n%s", diff)
	}

	status, domain, stderr := runSpawn(t, "--cloud", "sim", "--service-cloud", "sim-svc", "--instance", instance, "--profile", "mixed", "--xml", "-")
	if status != 0 {
		t.Fatalf("exit %d, %s", status, stderr)
	}
	if err := cloud.DefineGuest(sim.Guest{UUID: instance, Host: hostOf(t, cloud, instance), Domain: domain}); err != nil {
		t.Fatal(err)
	}
	cloud.CheckNoLeaks(t)

	cloud.RemoveGuest(instance)
	for range 2 {
		status, stdout, stderr := runSpawn(t, "--cloud", "sim", "--service-cloud", "sim-svc", "--instance", instance, "--release")
		if status != 0 || !strings.Contains(stdout, instance) {
			t.Errorf("--release: exit %d, %s%s", status, stdout, stderr)
		}
	}
	if diff := cmp.Diff(held, cloud.Placement.Allocations()); diff != "" || len(cloud.Cyborg.ARQs()) > 0 {
		t.Errorf("%d ARQs after --release; allocations (-want +got):\n%s", len(cloud.Cyborg.ARQs()), diff)
	}
}

func hostOf(t *testing.T, cloud *simcloud.Cloud, instance string) string {
	t.Helper()
	for _, arq := range cloud.Cyborg.ARQs() {
		if arq.InstanceUUID == instance {
			return arq.Hostname
		}
	}
	t.Fatalf("instance %s has no ARQ", instance)
	return ""
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 2},
		{&spawn.Error{Step: spawn.StepProfile}, 2},
		{&spawn.Error{Step: spawn.StepRequest}, 2},
		{&spawn.Error{Step: spawn.StepCandidates}, 3},
		{&spawn.Error{Step: spawn.StepClaim}, 4},
		{&spawn.Error{Step: spawn.StepCreate}, 5},
		{&spawn.Error{Step: spawn.StepMatch}, 5},
		{&spawn.Error{Step: spawn.StepBind}, 6},
		{&spawn.Error{Step: spawn.StepWait}, 7},
		{&spawn.Error{Step: spawn.StepCompose}, 8},
		{&spawn.Error{Step: spawn.StepBind, Leftovers: []spawn.Leftover{{Kind: "arq"}}}, 9},
		{errors.Join(errors.New("x"), errLeak), 9},
	}
	for _, tt := range tests {
		if got := exitStatus(tt.err); got != tt.want {
			t.Errorf("%v: got exit status %d, want %d", tt.err, got, tt.want)
		}
	}
}

// TestADriverThatIsAProgram: its device gets to the guest. The test is not parallel, because a program that was
// just written is busy while another process starts.
func TestADriverThatIsAProgram(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bus"), 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "acme")
	text := "#!/bin/sh\necho '{\"rocky\": {\"0000:3b:00.0\": {\"type\": \"AICHIP\", \"vendor\": \"acme\", \"product\": \"NPU\"}}}'\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	status, domain, stderr := runSpawn(t, "--sysfs", dir, "--xml", "-",
		"--driver-config", file(t, "c.json", `{"enabled_drivers": ["command_driver"], "sections": {"command_driver": {"program": "`+program+`"}}}`),
		"--profile", file(t, "p.json", `{"name": "npu", "groups": [{"resources:CUSTOM_ACCELERATOR_AICHIP": "1"}]}`))
	devices, err := domainxml.Read([]byte(domain))
	if status != 0 || err != nil || len(devices) != 1 || devices[0].PCI == nil || devices[0].PCI.Bus != 0x3b {
		t.Errorf("exit %d, %v, %v: %s", status, devices, err, stderr)
	}
}

// TestABitstreamIsLoaded has a loader that writes what the kernel would show. The test is not parallel, for
// the same reason.
func TestABitstreamIsLoaded(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	const function = "d8424dc4a4a3c413f89e433683f9040b"
	machine, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{{
		Address: "0000:3b:00.0", Vendor: "8086", Product: "0b30", Class: "1200", Driver: "dfl-pci", FPGA: &sysfs.FPGA{
			DFL: true, InterfaceID: "9926ab6d6c925a68aabca7d84c545738", Ports: []sysfs.FPGAPort{{AFUID: "c6aa954a9b914a37abc11d9f0709dcc3"}},
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := machine.LayOut(dir); err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(t.TempDir(), "loader")
	text := "#!/bin/sh\necho " + function + " > " + filepath.Join(dir, "class/fpga_region/region0/dfl-port.0/afu_id") + "\n"
	if err := os.WriteFile(loader, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--sysfs", dir, "--xml", "-",
		"--bitstream", file(t, "gzip.gbs", `{"afu-image": {"interface-uuid": "9926ab6d-6c92-5a68-aabc-a7d84c545738", "accelerator-clusters": [{"accelerator-type-uuid": "`+function+`"}]}}`),
		"--profile", file(t, "p.json", `{"name": "gzip", "groups": [{"resources:FPGA": "1", "accel:bitstream_name": "gzip.gbs"}]}`),
	}
	if status, _, stderr := runSpawn(t, args...); status != 7 {
		t.Errorf("without a loader: exit %d: %s", status, stderr)
	}
	status, domain, stderr := runSpawn(t, append(args, "--bitstream-loader", loader)...)
	devices, err := domainxml.Read([]byte(domain))
	if status != 0 || err != nil || len(devices) != 1 || devices[0].PCI == nil || devices[0].PCI.Bus != 0x3b {
		t.Errorf("exit %d, %v, %v: %s", status, devices, err, stderr)
	}
}
