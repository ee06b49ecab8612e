//go:build clients

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// These tests drive the built binary with OpenStack's own clients, unmodified:
// openstackclient with osc-placement and python-cyborgclient, and openstacksdk.
// Debian: python3-openstackclient python3-osc-placement python3-cyborgclient
// python3-openstacksdk.

// row is one JSON object that a client prints.
type row = map[string]any

const (
	unknownUUID = "99999999-0000-4000-8000-000000000000"
	instance    = "bbbbbbbb-0000-4000-8000-000000000001"
)

// startCloud is bootCloud where OpenStack's clients are installed.
func startCloud(t *testing.T, flags ...string) cloud {
	t.Helper()
	for _, program := range []string{"openstack", "/usr/bin/python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("these tests need OpenStack's clients: %v", err)
		}
	}
	return bootCloud(t, flags...)
}

// try runs a client that finds clouds.yaml, and returns its output, its error
// output and its status.
func (c cloud) try(t *testing.T, program string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return tryWith(t, c.files, program, args...)
}

func tryWith(t *testing.T, env []string, program string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OS_") })
	command.Env = slices.Concat(own, []string{"PYTHONWARNINGS=ignore"}, env)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	_ = command.Run() // the status says it all
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// answer runs the command line client, which must succeed, and decodes its output.
func answer[T any](t *testing.T, c cloud, as string, args ...string) T {
	t.Helper()
	args = append([]string{"--os-cloud", as}, append(args, "-f", "json")...)
	stdout, stderr, status := c.try(t, "openstack", args...)
	var value T
	if err := json.Unmarshal([]byte(stdout), &value); err != nil || status != 0 {
		t.Fatalf("openstack %s: status %d, %v\n%s%s", strings.Join(args, " "), status, err, stdout, stderr)
	}
	return value
}

// refused runs the command line client, which must fail with a reason.
func (c cloud) refused(t *testing.T, want, as string, args ...string) {
	t.Helper()
	stdout, stderr, status := c.try(t, "openstack", append([]string{"--os-cloud", as}, args...)...)
	if status == 0 || !strings.Contains(stderr, want) {
		t.Errorf("openstack %s: got status %d, %q, errors %q; want a failure with %q", strings.Join(args, " "), status, stdout, stderr, want)
	}
}

// column collects one field of every row, sorted.
func column(rows []row, field string) []string {
	var values []string
	for _, r := range rows {
		text, _ := r[field].(string)
		values = append(values, text)
	}
	slices.Sort(values)
	return values
}

// find returns the row in which a field has a value.
func find(t *testing.T, rows []row, field, value string) row {
	t.Helper()
	i := slices.IndexFunc(rows, func(r row) bool { return r[field] == value })
	if i < 0 {
		t.Fatalf("no row has %s %q: %v", field, value, rows)
	}
	return rows[i]
}

func text(t *testing.T, r row, field string) string {
	t.Helper()
	value, ok := r[field].(string)
	if !ok {
		t.Fatalf("field %s of %v is no text", field, r)
	}
	return value
}

func TestOpenStackClientIdentity(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	token := answer[row](t, c, "sim", "token", "issue")
	if text(t, token, "id") == "" || text(t, token, "project_id") == "" {
		t.Errorf("token: got %v", token)
	}
	catalog := answer[[]row](t, c, "sim-demo", "catalog", "list")
	if diff := cmp.Diff([]string{"accelerator", "compute", "identity", "image", "placement"}, column(catalog, "Type"),
		cmpopts.IgnoreSliceElements(func(s string) bool { return s == "image" })); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
	c.refused(t, "HTTP 401", "sim", "--os-password", "wrong", "token", "issue")
	if stdout, stderr, status := tryWith(t, c.exports, "openstack", "token", "issue", "-f", "json"); status != 0 || !strings.Contains(stdout, "project_id") {
		t.Errorf("with the exported variables: status %d, %s%s", status, stdout, stderr)
	}
	nowhere := append(slices.Clone(c.exports), "OS_PROJECT_NAME=nowhere")
	if _, stderr, status := tryWith(t, nowhere, "openstack", "token", "issue"); status == 0 || !strings.Contains(stderr, "HTTP 401") {
		t.Errorf("with an unknown project: status %d, %s; want a failure with HTTP 401", status, stderr)
	}
}

func TestOpenStackClientPlacement(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	providers := answer[[]row](t, c, "sim", "--os-placement-api-version", "1.29", "resource", "provider", "list")
	names := column(providers, "name")
	for _, want := range []string{"cn0", "cn0_0000:3b:00.0", "cn0_FakeDevice", "cn0_nic", "cn1"} {
		if !slices.Contains(names, want) {
			t.Errorf("resource providers %v lack %s", names, want)
		}
	}
	root := text(t, find(t, providers, "name", "cn0"), "uuid")
	gpu := find(t, providers, "name", "cn0_0000:3b:00.0")
	if gpu["parent_provider_uuid"] != root {
		t.Errorf("parent of the GPU: got %v, want %s", gpu["parent_provider_uuid"], root)
	}
	shown := answer[row](t, c, "sim", "resource", "provider", "show", root)
	if text(t, shown, "name") != "cn0" {
		t.Errorf("resource provider show: got %v", shown)
	}
	inventory := answer[[]row](t, c, "sim", "resource", "provider", "inventory", "list", root)
	if total := find(t, inventory, "resource_class", "VCPU")["total"]; total != 64.0 {
		t.Errorf("VCPU of cn0: got %v, want 64", total)
	}
	traits := answer[[]row](t, c, "sim", "--os-placement-api-version", "1.6", "resource", "provider", "trait", "list", root)
	if diff := cmp.Diff([]string{"COMPUTE_ACCELERATORS", "OWNER_NOVA"}, column(traits, "name")); diff != "" {
		t.Errorf("traits of cn0 (-want +got):\n%s", diff)
	}
	c.refused(t, "HTTP 404", "sim", "resource", "provider", "show", unknownUUID)
	c.refused(t, "HTTP 403", "sim-demo", "resource", "provider", "list")
}

func TestOpenStackClientClaims(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	version := []string{"--os-placement-api-version", "1.29"}
	candidates := func() []row {
		return answer[[]row](t, c, "sim", append(version, "allocation", "candidate", "list",
			"--resource", "FPGA=2", "--required", "CUSTOM_FPGA_INTEL_PAC_D5005")...)
	}
	before := candidates()
	if len(before) != 2 {
		t.Fatalf("candidates for two functions of one FPGA: got %v, want one of each host", before)
	}
	provider := text(t, before[0], "resource provider")
	claimed := answer[[]row](t, c, "sim", append(version, "resource", "provider", "allocation", "set", instance,
		"--allocation", "rp="+provider+",FPGA=2", "--project-id", "p", "--user-id", "u")...)
	if diff := cmp.Diff(row{"FPGA": 2.0}, claimed[0]["resources"]); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	if after := candidates(); len(after) != 1 || text(t, after[0], "resource provider") == provider {
		t.Errorf("candidates after the claim: got %v, want only the other host's", after)
	}
	usage := answer[[]row](t, c, "sim", "resource", "provider", "usage", "show", provider)
	if used := find(t, usage, "resource_class", "FPGA")["usage"]; used != 2.0 {
		t.Errorf("usage: got %v, want 2", used)
	}
	if _, stderr, status := c.try(t, "openstack", "--os-cloud", "sim", "resource", "provider", "allocation", "delete", instance); status != 0 {
		t.Errorf("allocation delete: status %d, %s", status, stderr)
	}
	if diff := cmp.Diff(before, candidates()); diff != "" {
		t.Errorf("candidates after the release (-before +after):\n%s", diff)
	}
	groups := answer[[]row](t, c, "sim", append(version, "allocation", "candidate", "list", "--group", "1",
		"--resource", "PGPU=1", "--group", "2", "--resource", "VGPU=1", "--group-policy", "isolate", "--limit", "1")...)
	if diff := cmp.Diff([]string{"PGPU=1", "VGPU=1"}, column(groups, "allocation")); diff != "" {
		t.Errorf("candidate of two groups (-want +got):\n%s", diff)
	}
	c.refused(t, "HTTP 400", "sim", append(version, "allocation", "candidate", "list", "--resource", "NONSENSE=1")...)
}

func TestOpenStackClientDeviceProfiles(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	profile := []string{"accelerator", "device", "profile"}
	list := func() []string { return column(answer[[]row](t, c, "sim", append(profile, "list")...), "name") }
	want := []string{"fake", "fpga", "gpu", "mixed", "vgpu"}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Fatalf("device profiles (-want +got):\n%s", diff)
	}
	const groups = `[{"resources:PGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}]`
	created := answer[row](t, c, "sim", append(profile, "create", "mine", groups, "--description", "for me")...)
	wantProfile := row{"name": "mine", "description": "for me", "groups": []any{row{"resources:PGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}}}
	varying := cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "uuid" || strings.HasSuffix(key, "_at") })
	if diff := cmp.Diff(wantProfile, created, varying); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	shown := answer[row](t, c, "sim", append([]string{"--os-accelerator-api-version", "2.2"}, append(profile, "show", "mine")...)...)
	if diff := cmp.Diff(created, shown); diff != "" {
		t.Errorf("shown by name (-created +shown):\n%s", diff)
	}
	c.refused(t, "HTTP 406", "sim", append(profile, "show", "mine")...)
	c.refused(t, "409", "sim", append(profile, "create", "mine", groups)...)
	c.refused(t, "400", "sim", append(profile, "create", "bad name", groups)...)
	c.refused(t, "400", "sim", append(profile, "create", "bad-class", `[{"resources:NONSENSE": "1"}]`)...)
	c.refused(t, "403", "sim-demo", append(profile, "create", "theirs", groups)...)
	c.refused(t, "404", "sim", append(profile, "delete", unknownUUID)...)
	if diff := cmp.Diff([]string{"fake", "fpga", "gpu", "mine", "mixed", "vgpu"}, list()); diff != "" {
		t.Errorf("device profiles after what was refused (-want +got):\n%s", diff)
	}
	if _, stderr, status := c.try(t, "openstack", append([]string{"--os-cloud", "sim"}, append(profile, "delete", text(t, created, "uuid"))...)...); status != 0 {
		t.Errorf("delete: status %d, %s", status, stderr)
	}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("device profiles at the end (-want +got):\n%s", diff)
	}
}

// TestOpenStackClientFlavors: openstackclient, and openstacksdk in the set-up of its functional tests, read the flavors of the model.
func TestOpenStackClientFlavors(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	for _, version := range []string{"2.1", "2.90"} {
		flavor := []string{"--os-compute-api-version", version, "flavor"}
		names := column(answer[[]row](t, c, "sim-demo", append(flavor, "list")...), "Name")
		if diff := cmp.Diff([]string{"accel.fake", "accel.fpga", "accel.gpu", "accel.mixed", "accel.vgpu"}, names, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: flavors (-want +got):\n%s", version, diff)
		}
		shown := answer[row](t, c, "sim-demo", append(flavor, "show", "accel.gpu")...)
		if diff := cmp.Diff(row{"accel:device_profile": "gpu"}, shown["properties"]); diff != "" || shown["vcpus"] != 4.0 {
			t.Errorf("%s: accel.gpu %+v, properties (-want +got):\n%s", version, shown, diff)
		}
		c.refused(t, "No Flavor found for accel.none", "sim", append(flavor, "show", "accel.none")...)
	}
	const script = `
import openstack
flavors = list(openstack.connect(cloud="sim").compute.flavors(get_extra_specs=True))
print(len(flavors), sorted(f.extra_specs["accel:device_profile"] for f in flavors))
`
	const want = "5 ['fake', 'fpga', 'gpu', 'mixed', 'vgpu']\n"
	if stdout, stderr, status := c.try(t, "/usr/bin/python3", "-c", script); status != 0 || stdout != want {
		t.Errorf("openstacksdk: %d %s%s, want %s", status, stdout, stderr, want)
	}
}

func TestOpenStackClientHardware(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	devices := answer[[]row](t, c, "sim", "accelerator", "device", "list")
	ours := slices.DeleteFunc(slices.Clone(devices), func(r row) bool { return r["hostname"] != "cn0" })
	if diff := cmp.Diff([]string{"FPGA", "FPGA", "FPGA", "GPU", "GPU", "GPU"}, column(ours, "type")); diff != "" {
		t.Errorf("devices of cn0 (-want +got):\n%s", diff)
	}
	shown := answer[row](t, c, "sim", "accelerator", "device", "show", text(t, ours[0], "uuid"))
	if text(t, shown, "hostname") != "cn0" {
		t.Errorf("device show: got %v", shown)
	}
	deployables := answer[[]row](t, c, "sim", "accelerator", "deployable", "list")
	board := find(t, deployables, "name", "cn0_0000:86:00.0")
	detail := answer[row](t, c, "sim", "accelerator", "deployable", "show", text(t, board, "uuid"))
	if detail["name"] != "cn0_0000:86:00.0" {
		t.Errorf("deployable show: got %v", detail)
	}
	c.refused(t, "not found", "sim", "accelerator", "device", "show", unknownUUID)
}

func TestOpenStackClientAcceleratorRequests(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	created := answer[row](t, c, "sim", "accelerator", "arq", "create", "mixed")
	if created["state"] != "Initial" || created["device_profile_name"] != "mixed" {
		t.Errorf("created: got %v", created)
	}
	id := text(t, created, "uuid")
	if diff := cmp.Diff(created, answer[row](t, c, "sim", "accelerator", "arq", "show", id)); diff != "" {
		t.Errorf("shown (-created +shown):\n%s", diff)
	}
	all := answer[[]row](t, c, "sim", "accelerator", "arq", "list")
	if len(all) != 4 {
		t.Errorf("ARQs of the profile mixed: got %v, want 4 of them", all)
	}
	c.refused(t, "404", "sim", "accelerator", "arq", "create", "nonsense")
	c.refused(t, "not found", "sim", "accelerator", "arq", "show", unknownUUID)
	// This client cannot send a service token, which the present release asks for.
	c.refused(t, "service token", "sim", "accelerator", "arq", "bind", id, "cn0", instance, unknownUUID, "p")
	args := append([]string{"--os-cloud", "sim", "accelerator", "arq", "delete"}, column(all, "uuid")...)
	if _, stderr, status := c.try(t, "openstack", args...); status != 0 {
		t.Errorf("delete: status %d, %s", status, stderr)
	}
	if left := answer[[]row](t, c, "sim", "accelerator", "arq", "list"); len(left) != 0 {
		t.Errorf("ARQs left: %v", left)
	}
	c.refused(t, "exists", "sim", "accelerator", "arq", "delete", id)
}

func TestOpenStackClientBindsOnZed(t *testing.T) {
	t.Parallel()
	c := startCloud(t, "--cyborg-release", "zed")
	providers := answer[[]row](t, c, "sim", "resource", "provider", "list")
	gpu := text(t, find(t, providers, "name", "cn0_0000:3b:00.0"), "uuid")
	id := text(t, answer[row](t, c, "sim", "accelerator", "arq", "create", "gpu"), "uuid")
	bound := answer[row](t, c, "sim", "accelerator", "arq", "bind", id, "cn0", instance, gpu, "p")
	want := row{
		"uuid": id, "state": "Bound", "device_profile_name": "gpu", "hostname": "cn0", "device_rp_uuid": gpu,
		"instance_uuid": instance, "attach_handle_type": "PCI",
		"attach_handle_info": row{"domain": "0000", "bus": "3b", "device": "00", "function": "0"},
	}
	if diff := cmp.Diff(want, bound); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
	unbound := answer[row](t, c, "sim", "accelerator", "arq", "unbind", id)
	if unbound["state"] != "Unbound" || unbound["attach_handle_type"] != "" {
		t.Errorf("unbound: got %v", unbound)
	}
}

// The clients of Debian 12 read the errors that Cyborg answers after 2026.2, objects instead of texts.
func TestOpenStackClientsReadTheErrorsOfMaster(t *testing.T) {
	t.Parallel()
	c := startCloud(t, "--cyborg-release", "master")
	c.refused(t, "not found", "sim", "accelerator", "arq", "show", unknownUUID)
	c.refused(t, "404", "sim", "accelerator", "arq", "create", "nonsense")
	stdout, stderr, status := c.try(t, "/usr/bin/python3", "-c", `
import openstack
try:
    openstack.connect(cloud="sim").accelerator.create_accelerator_request(device_profile_name="nonsense")
except openstack.exceptions.HttpException as e:
    print(e.status_code, e.details)
`)
	if want := "404 Device Profile not found with name=nonsense\n"; stdout != want || status != 0 {
		t.Errorf("openstacksdk: %d %s%s, want %s", status, stdout, stderr, want)
	}
}

// sdkScript plays an agent with openstacksdk and prints the results.
const sdkScript = `
import json
import openstack

cloud = openstack.connect(cloud="sim")
saw = {}
saw["providers"] = sorted(p.name for p in cloud.placement.resource_providers() if p.name.startswith("cn1"))
saw["profiles"] = sorted(p.name for p in cloud.accelerator.device_profiles())
profile = cloud.accelerator.create_device_profile(name="sdk", groups=[{"resources:FPGA": "1"}])
saw["groups"] = cloud.accelerator.get_device_profile(profile.id).groups
arq = cloud.accelerator.create_accelerator_request(device_profile_name="sdk")
saw["state"] = cloud.accelerator.get_accelerator_request(arq.uuid).state
saw["types"] = sorted({d.type for d in cloud.accelerator.devices()})
saw["deployables"] = len(list(cloud.accelerator.deployables()))
cloud.accelerator.delete_accelerator_request(arq.uuid, ignore_missing=False)
cloud.accelerator.delete_device_profile(profile.id, ignore_missing=False)
try:
    cloud.accelerator.get_device_profile(profile.id)
except openstack.exceptions.ResourceNotFound as e:
    saw["gone"] = e.status_code
created = cloud.placement.create_resource_provider(name="spare")
saw["created"] = cloud.placement.get_resource_provider(created.id).name
cloud.placement.delete_resource_provider(created.id, ignore_missing=False)
print(json.dumps(saw))
`

func TestOpenStackSDK(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	// Debian installs the library for its own interpreter only.
	stdout, stderr, status := c.try(t, "/usr/bin/python3", "-c", sdkScript)
	var got row
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("script: status %d, %v\n%s%s", status, err, stdout, stderr)
	}
	want := row{
		"providers": []any{
			"cn1", "cn1_0000:3b:00.0", "cn1_0000:5e:00.0", "cn1_0000:86:00.0", "cn1_0000:af:00.0", "cn1_0000:c1:00.0", "cn1_0000:d8:00.0",
			"cn1_FakeDevice", "cn1_nic", "cn1_pci_0000_e1_00_0",
		},
		"profiles": []any{"fake", "fpga", "gpu", "mixed", "vgpu"},
		"groups":   []any{row{"resources:FPGA": "1"}},
		"state":    "Initial", "types": []any{"FPGA", "GPU"}, "deployables": 12.0, "gone": 404.0, "created": "spare",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the SDK saw (-want +got):\n%s", diff)
	}
}
