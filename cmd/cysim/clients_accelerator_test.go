//go:build clients

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sdkProgram is the beginning of every script: try_ prints the result of a call.
const sdkProgram = `
import json
import openstack

unknown = "99999999-0000-4000-8000-000000000000"
admin = openstack.connect(cloud="sim")
member = openstack.connect(cloud="sim-demo")
service = openstack.connect(cloud="sim-svc")
acc = admin.accelerator
saw = {}

def try_(call, *args, **kwargs):
    try:
        result = call(*args, **kwargs)
        return "ok" if not hasattr(result, "__next__") else len(list(result))
    except openstack.exceptions.HttpException as e:
        return [type(e).__name__, e.status_code, str(e.details)[:40]]

def bind(arq, host, rp, instance):
    return [{"op": "add", "path": path, "value": value} for path, value in
            (("/hostname", host), ("/device_rp_uuid", rp), ("/instance_uuid", instance))]

def unbind():
    return [{"op": "remove", "path": path} for path in ("/hostname", "/device_rp_uuid", "/instance_uuid")]

gpu = next(p.id for p in admin.placement.resource_providers() if p.name == "cn0_0000:3b:00.0")
`

// script runs a Python program with openstacksdk and decodes its output.
func script(t *testing.T, c cloud, text string) row {
	t.Helper()
	// Debian installs the library for its own interpreter only.
	stdout, stderr, status := c.try(t, "/usr/bin/python3", "-c", sdkProgram+text+"\nprint(json.dumps(saw))\n")
	var got row
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("script: status %d, %v\n%s%s", status, err, stdout, stderr)
	}
	return got
}

const sdkVerbs = `
acc.additional_headers["X-Service-Token"] = service.session.get_token()
saw["profiles"] = sorted(p.name for p in acc.device_profiles())
profile = acc.create_device_profile(name="sdk", groups=[{"resources:PGPU": "1"}], description="d")
saw["profile"] = acc.get_device_profile(profile.id).name
arq = acc.create_accelerator_request(device_profile_name="sdk")
saw["list"] = [a.uuid for a in acc.accelerator_requests()] == [arq.uuid]
acc.update_accelerator_request(arq.uuid, bind(arq, "cn0", gpu, "bbbbbbbb-0000-4000-8000-000000000001"))
bound = acc.get_accelerator_request(arq.uuid)
saw["bound"] = [bound.state, bound.attach_handle_type, bound.hostname, bound.device_rp_uuid == gpu]
acc.update_accelerator_request(arq.uuid, unbind())
saw["unbound"] = acc.get_accelerator_request(arq.uuid).state
acc.delete_accelerator_request(arq.uuid, ignore_missing=False)
saw["none"] = len(list(acc.accelerator_requests()))
acc.delete_device_profile("sdk", ignore_missing=False)
gpus = [d for d in acc.devices() if d.type == "GPU" and d.hostname == "cn0"]
saw["gpus"] = [len(gpus), acc.get_device(gpus[0].id).hostname]
part = next(d for d in acc.deployables() if d.name == "cn0_0000:d8:00.0")
saw["part"] = acc.get_deployable(part.id).num_accelerators
image = admin.image.create_image("bits", data=b"""{"afu-image": {"accelerator-clusters": [{"accelerator-type-uuid": "d8424dc4-a4a3-c413-f89e-433683f9040b"}]}}""", disk_format="raw", container_format="bare", validate_checksum=False)
acc.update_deployable(part.id, [{"path": "/program", "op": "replace", "value": [{"image_uuid": image.id}]}])
saw["programmed"] = admin.session.get(acc.get_endpoint() + "/deployables/" + part.id).json()["bitstream_id"] == image.id
`

func TestSDKAcceleratorEveryVerb(t *testing.T) {
	t.Parallel()
	got := script(t, startCloud(t), sdkVerbs)
	want := row{
		"profiles": []any{"fake", "fpga", "gpu", "mixed", "vgpu"}, "profile": "sdk", "list": true,
		"bound": []any{"Bound", "PCI", "cn0", true}, "unbound": "Unbound", "none": 0.0,
		"gpus": []any{3.0, "cn0"}, "part": 1.0, "programmed": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the SDK saw (-want +got):\n%s", diff)
	}
}

const sdkErrors = `
program = [{"path": "/program", "op": "replace", "value": [{"image_uuid": unknown}]}]
part = next(d for d in acc.deployables() if d.name == "cn0_0000:d8:00.0")
theirs = acc.create_accelerator_request(device_profile_name="gpu")
acc.create_device_profile(name="taken", groups=[{"resources:PGPU": "1"}])
for name, call in {
    "unknown device": lambda: acc.get_device(unknown),
    "unknown deployable": lambda: acc.get_deployable(unknown),
    "unknown profile": lambda: acc.get_device_profile(unknown),
    "unknown request": lambda: acc.get_accelerator_request(unknown),
    "delete unknown profile": lambda: acc.delete_device_profile(unknown, ignore_missing=False),
    "delete unknown request": lambda: acc.delete_accelerator_request(unknown, ignore_missing=False),
    "missing may be ignored": lambda: acc.delete_accelerator_request(unknown),
    "profile twice": lambda: acc.create_device_profile(name="taken", groups=[{"resources:PGPU": "1"}]),
    "bad profile": lambda: acc.create_device_profile(name="bad", groups=[{"resources:NONSENSE": "1"}]),
    "request for no profile": lambda: acc.create_accelerator_request(device_profile_name="nonsense"),
    "paging": lambda: acc.devices(limit=1),
    "bind without service token": lambda: acc.update_accelerator_request(theirs.uuid, bind(theirs, "cn0", gpu, unknown)),
    "program unknown deployable": lambda: acc.update_deployable(unknown, program),
    "member creates profile": lambda: member.accelerator.create_device_profile(name="m", groups=[{"resources:PGPU": "1"}]),
    "member deletes profile": lambda: member.accelerator.delete_device_profile("taken", ignore_missing=False),
    "member programs": lambda: member.accelerator.update_deployable(part.id, program),
    "another's request": lambda: member.accelerator.get_accelerator_request(theirs.uuid),
    "delete another's request": lambda: member.accelerator.delete_accelerator_request(theirs.uuid, ignore_missing=False),
    "another's list": lambda: member.accelerator.accelerator_requests(),
    "member reads": lambda: member.accelerator.devices(),
}.items():
    saw[name] = try_(call)
    if isinstance(saw[name], list):
        saw[name] = saw[name][:2]
`

func TestSDKAcceleratorErrors(t *testing.T) {
	t.Parallel()
	got := script(t, startCloud(t), sdkErrors)
	notFound, forbidden, bad := []any{"ResourceNotFound", 404.0}, []any{"HttpException", 403.0}, []any{"BadRequestException", 400.0}
	if kind, ok := got["member creates profile"].([]any); ok {
		forbidden[0] = kind[0] // ForbiddenException in newer releases
	}
	want := row{
		"unknown device": notFound, "unknown deployable": notFound, "unknown profile": notFound, "unknown request": notFound,
		"delete unknown profile": notFound, "delete unknown request": notFound, "missing may be ignored": "ok",
		"profile twice": []any{"ConflictException", 409.0}, "bad profile": bad, "request for no profile": notFound, "paging": bad,
		"bind without service token": forbidden, "program unknown deployable": notFound,
		"member creates profile": forbidden, "member deletes profile": forbidden, "member programs": forbidden,
		"another's request": notFound, "delete another's request": notFound, "another's list": 0.0, "member reads": 12.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("how the calls ended (-want +got):\n%s", diff)
	}
}

func TestOpenStackClientAllAcceleratorVerbs(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	stdout, stderr, status := c.try(t, "openstack", "--os-cloud", "sim", "command", "list", "--group", "openstack.accelerator.v2", "-f", "json")
	var groups []struct{ Commands any }
	if err := json.Unmarshal([]byte(stdout), &groups); err != nil || status != 0 || len(groups) != 1 {
		t.Fatalf("command list: %d, %v\n%s%s", status, err, stdout, stderr)
	}
	var verbs []string
	switch commands := groups[0].Commands.(type) {
	case string:
		verbs = strings.Split(commands, "\n")
	case []any:
		for _, each := range commands {
			verbs = append(verbs, each.(string))
		}
	}
	var sources strings.Builder
	files, err := filepath.Glob("clients*_test.go")
	must(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		sources.Write(data)
	}
	// the profile verbs are made by a prefix: append(profile, "list")
	text := strings.ReplaceAll(sources.String(), `append(profile, "`, `"accelerator", "device", "profile", "`)
	for _, verb := range verbs {
		if verb = strings.TrimSpace(verb); verb == "" {
			continue
		}
		if call := `"` + strings.Join(strings.Fields(verb), `", "`) + `"`; !strings.Contains(text, call) {
			t.Errorf("no test drives openstack %s", verb)
		}
	}
	if len(verbs) < 15 {
		t.Errorf("verbs: %q", verbs)
	}
}

func TestOpenStackClientDeployableProgram(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	file := writeFile(t, "bits", `{"afu-image": {"accelerator-clusters": [{"accelerator-type-uuid": "d8424dc4-a4a3-c413-f89e-433683f9040b"}]}}`)
	image := text(t, answer[row](t, c, "sim", "image", "create", "bits", "--disk-format", "raw", "--container-format", "bare", "--file", file), "id")
	parts := answer[[]row](t, c, "sim", "accelerator", "deployable", "list")
	fpga := text(t, find(t, parts, "name", "cn0_0000:d8:00.0"), "uuid")
	programmed := answer[row](t, c, "sim", "accelerator", "deployable", "program", fpga, image)
	if programmed["name"] != "cn0_0000:d8:00.0" || programmed["updated_at"] == nil {
		t.Errorf("programmed: %v", programmed)
	}
	c.refused(t, "deployable not found", "sim", "accelerator", "deployable", "program", unknownUUID, image)
	c.refused(t, "40", "sim", "accelerator", "deployable", "program", fpga, unknownUUID)
	c.refused(t, "403", "sim-demo", "accelerator", "deployable", "program", fpga, image)
	c.refused(t, "not found", "sim", "accelerator", "deployable", "show", unknownUUID)
	if long := answer[[]row](t, c, "sim", "accelerator", "deployable", "list", "--long"); len(long) != len(parts) || long[0]["num_accelerators"] == nil {
		t.Errorf("long list: %v", long)
	}
}

func TestOpenStackClientRequestErrors(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	id := text(t, answer[row](t, c, "sim", "accelerator", "arq", "create", "gpu", "--group-id", "0"), "uuid")
	long := answer[[]row](t, c, "sim", "accelerator", "arq", "list", "--long")
	if len(long) != 1 || long[0]["uuid"] != id {
		t.Errorf("long list: %v", long)
	}
	c.refused(t, "service token", "sim", "accelerator", "arq", "unbind", id)
	c.refused(t, "not found", "sim-demo", "accelerator", "arq", "show", id)
	if theirs := answer[[]row](t, c, "sim-demo", "accelerator", "arq", "list"); len(theirs) != 0 {
		t.Errorf("another project sees %v", theirs)
	}
	c.refused(t, "exists", "sim-demo", "accelerator", "arq", "delete", id)
	c.refused(t, "maximum of 2.3", "sim", "--os-accelerator-api-version", "2.9", "accelerator", "device", "list")
	c.refused(t, "HTTP 401", "sim", "--os-password", "wrong", "accelerator", "device", "list")
}

func TestOpenStackClientApplicationCredential(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	made := answer[row](t, c, "sim-demo", "application", "credential", "create", "ci", "--role", "reader")
	id, secret := text(t, made, "id"), text(t, made, "secret")
	url := c.exports[slices.IndexFunc(c.exports, func(v string) bool { return strings.HasPrefix(v, "OS_AUTH_URL=") })]
	env := []string{url, "OS_AUTH_TYPE=v3applicationcredential", "OS_APPLICATION_CREDENTIAL_ID=" + id, "OS_APPLICATION_CREDENTIAL_SECRET=" + secret}
	if stdout, stderr, status := tryWith(t, env, "openstack", "accelerator", "device", "list", "-f", "json"); status != 0 || !strings.Contains(stdout, "cn0") {
		t.Errorf("devices with the credential: %d, %s%s", status, stdout, stderr)
	}
	if _, stderr, status := tryWith(t, env, "openstack", "accelerator", "device", "profile", "delete", "gpu"); status == 0 || !strings.Contains(stderr, "403") {
		t.Errorf("a reader deletes a profile: %d, %s", status, stderr)
	}
	if listed := answer[[]row](t, c, "sim-demo", "application", "credential", "list"); len(listed) != 1 {
		t.Errorf("listed: %v", listed)
	}
	if _, stderr, status := c.try(t, "openstack", "--os-cloud", "sim-demo", "application", "credential", "delete", id); status != 0 {
		t.Fatalf("delete: %d, %s", status, stderr)
	}
	if _, stderr, status := tryWith(t, env, "openstack", "token", "issue"); status == 0 || !strings.Contains(stderr, "HTTP 404") {
		t.Errorf("with the deleted credential: %d, %s", status, stderr)
	}
}

// shellLines returns the lines of the sh snippets of a page that run a client's
// command.
func shellLines(t *testing.T, file, command string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	var lines []string
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, command) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

func TestTheLinesOfTheOperatorsPageRun(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	words := regexp.MustCompile(`'([^']*)'|(\S+)`)
	lines, created := shellLines(t, "../../docs/operators.md", "openstack accelerator "), 0
	for _, line := range lines {
		var args []string
		for _, match := range words.FindAllStringSubmatch(line, -1)[1:] {
			args = append(args, match[1]+match[2])
		}
		got, stderr, status := c.try(t, "openstack", slices.Concat([]string{"--os-cloud", "sim"}, args, []string{"-f", "json"})...)
		if status != 0 {
			t.Errorf("%s: status %d, %s", line, status, stderr)
			continue
		}
		if !strings.Contains(line, " create ") {
			continue
		}
		created++
		var profile struct {
			Name   string
			Groups []map[string]string
		}
		var wanted []map[string]string
		if err := json.Unmarshal([]byte(got), &profile); err != nil {
			t.Errorf("%s: %v in %s", line, err, got)
		}
		if err := json.Unmarshal([]byte(args[5]), &wanted); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if diff := cmp.Diff(wanted, profile.Groups); diff != "" || profile.Name != args[4] {
			t.Errorf("%s: created %s, groups (-page +answer):\n%s", line, profile.Name, diff)
		}
	}
	if len(lines) < 9 || created < 8 {
		t.Errorf("the page has %d lines, %d of them create a profile", len(lines), created)
	}
}
