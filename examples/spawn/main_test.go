package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

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
	rest := string(data)
	for _, want := range []string{
		"sequenceDiagram\n", "client->>Cyborg: GET /device_profiles", "client->>client: merge", "client->>Placement: GET /allocation_candidates",
		"client->>client: select", "client->>Placement: PUT /allocations", "client->>Cyborg: POST", "client->>client: match", "client->>Cyborg: PATCH",
		"Cyborg->>Nova: POST", "client->>client: wait", "client->>Cyborg: GET", "client->>client: compose",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("diagram lacks %q in this order:\n%s", want, data)
		}
		rest = after
	}
}

// TestEveryStepThatFailsIsUndone has each fault of --fail in each profile.
func TestEveryStepThatFailsIsUndone(t *testing.T) {
	t.Parallel()
	want := map[step]int{"profile": 2, "candidates": 3, "claim": 4, "create": 5, "bind": 6, failWait: 7, failStart: 8}
	if len(want) != len(failures)+2 {
		t.Errorf("%d steps are tried, of %d", len(want), len(failures)+2)
	}
	for failing, status := range want {
		for _, profile := range []string{"gpu", "mixed"} {
			t.Run(string(failing)+" with "+profile, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					got, stdout, stderr := runSpawn(t, "--profile", profile, "--fail", string(failing))
					if got != status || !strings.Contains(stderr, ": "+string(failing)+": ") || !strings.Contains(stderr, "nothing leaked") {
						t.Errorf("exit %d, want %d and the step\n%s%s", got, status, stdout, stderr)
					}
				})
			})
		}
	}
}

func TestTheGuestComesBackAfterAReboot(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := runSpawn(t, "--profile", "vgpu", "--reboot")
	if status != 0 || stderr != "" {
		t.Fatalf("exit %d, %s", status, stderr)
	}
	for _, want := range []string{"stops, its guest is off, mediated device", "vanishes", "is created again", "starts again with [mdev "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("output lacks %q:\n%s", want, stdout)
		}
	}
}

func TestAFlavorNamesItsProfile(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := runSpawn(t, "--flavor", "accel.vgpu")
	if status != 0 || !strings.Contains(stdout, "flavor accel.vgpu, device profile vgpu") {
		t.Errorf("exit %d, %s%s", status, stdout, stderr)
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
		{"not a sysfs", []string{"--sysfs", empty}, 2, "sysfs"},
		{"sysfs without hardware", []string{"--sysfs", bare}, 3, "no allocation candidates"},
		{"host without sysfs", []string{"--host", "h"}, 2, "--sysfs"},
		{"driver-config is no configuration", []string{"--sysfs", bare, "--driver-config", file(t, "c.json", `{"qats": {}}`)}, 2, "qats"},
		{"instance is no UUID", []string{"--instance", "vm1"}, 2, "--instance"},
		{"cloud unknown", []string{"--cloud", "nope"}, 2, "nope"},
		{"cloud with sysfs", []string{"--cloud", "x", "--sysfs", "/sys"}, 2, "--sysfs"},
		{"cloud with a diagram", []string{"--cloud", "x", "--diagram", "d.mmd"}, 2, "--diagram"},
		{"cloud with a fault", []string{"--cloud", "x", "--fail", "bind"}, 2, "--fail"},
		{"cloud with a reboot", []string{"--cloud", "x", "--reboot"}, 2, "--reboot"},
		{"reboot of real hardware", []string{"--sysfs", bare, "--reboot"}, 2, "--reboot"},
		{"step without a fault", []string{"--fail", "match"}, 2, "candidates, claim"},
		{"flavor and profile", []string{"--flavor", "accel.gpu", "--profile", "gpu"}, 2, "--profile"},
		{"unknown flavor", []string{"--flavor", "nope"}, 2, "accel.gpu"},
		{"release alone", []string{"--release", "--instance", "0a1b2c3d-0000-4000-8000-000000000001"}, 2, "--cloud"},
		{"release of nothing", []string{"--cloud", "x", "--release"}, 2, "--instance"},
		{"release and delete", []string{"--cloud", "x", "--release", "--instance", "0a1b2c3d-0000-4000-8000-000000000001", "--delete", "0a1b2c3d-0000-4000-8000-000000000001"}, 2, "--delete"},
		{"delete alone", []string{"--delete", "0a1b2c3d-0000-4000-8000-000000000001"}, 2, "--cloud"},
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

// serve starts a cloud on a socket, with clouds.yaml in the environment. Its Nova is on another one,
// and ignores events.
func serve(t *testing.T) *simcloud.Cloud {
	t.Helper()
	var cloud *simcloud.Cloud
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			cloud.Handler().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(nova.Close)
	cloud = simcloud.Run(t, simcloud.Model{Catalog: map[string]string{"compute": nova.URL + "/compute/v2.1"}})
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	entry := func(user, project string) string {
		return fmt.Sprintf("{region_name: RegionOne, auth: {auth_url: %q, username: %s, password: secret, project_name: %s, user_domain_name: Default, project_domain_name: Default}}",
			server.URL+"/identity/v3", user, project)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file(t, "clouds.yaml",
		"clouds:\n  sim: "+entry("admin", "admin")+"\n  sim-svc: "+entry("nova", "service")+"\n"))
	t.Setenv("CYSIM_URL", server.URL)
	return cloud
}

// TestANewInstanceOfACloud is not parallel: clouds.yaml is found through the environment.
func TestANewInstanceOfACloud(t *testing.T) {
	cloud := serve(t)
	for _, args := range [][]string{{"--profile", "mixed"}, {"--flavor", "accel.gpu"}} {
		status, stdout, stderr := runSpawn(t, append(args, "--cloud", "sim", "--service-cloud", "sim-svc")...)
		guests := cloud.Guests()
		if status != 0 || len(guests) != 1 || !strings.Contains(stdout, "--delete "+guests[0].UUID) {
			t.Fatalf("%s: exit %d, %d guests\n%s%s", args, status, len(guests), stdout, stderr)
		}
		cloud.CheckNoLeaks(t)
		status, _, stderr = runSpawn(t, "--cloud", "sim", "--service-cloud", "sim-svc", "--delete", guests[0].UUID)
		if left := cloud.Placement.Allocations(); status != 0 || len(cloud.Guests())+len(cloud.Cyborg.ARQs())+len(left) > 0 {
			t.Errorf("%s: exit %d of --delete, %d guests, %d ARQs, %v: %s", args, status, len(cloud.Guests()), len(cloud.Cyborg.ARQs()), left, stderr)
		}
	}
	status, _, stderr := runSpawn(t, "--cloud", "sim", "--flavor", "accel.gpu") // Cyborg wants a service token
	if status != 6 || !strings.Contains(stderr, "--service-cloud") {
		t.Errorf("without service token: exit %d, %s", status, stderr)
	}
	cloud.CheckNoLeaks(t)
}

// TestAServerOfACloud is not parallel, for the same reason.
func TestAServerOfACloud(t *testing.T) {
	cloud := serve(t)
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
		{&spawn.Error{Step: spawn.StepStart}, 8},
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
