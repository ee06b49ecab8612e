package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
)

// login authenticates as a cloud of a clouds.yaml.
func login(t *testing.T, file, cloud string) *gophercloud.ProviderClient {
	t.Helper()
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(file), clouds.WithCloudName(cloud))
	must(t, err)
	if endpoint.Region != "RegionOne" {
		t.Errorf("region of %s: got %q", cloud, endpoint.Region)
	}
	client, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
	if err != nil {
		t.Fatalf("log in as %s: %v", cloud, err)
	}
	return client
}

func TestServeWithACloudsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--clouds-yaml", file)
	for _, cloud := range []string{"sim", "sim-demo", "sim-svc"} {
		login(t, file, cloud)
	}
	placement, err := openstack.NewPlacementV1(login(t, file, "sim"), gophercloud.EndpointOpts{Region: "RegionOne"})
	must(t, err)
	pages, err := resourceproviders.List(placement, resourceproviders.ListOpts{Name: "cn1"}).AllPages(t.Context())
	must(t, err)
	providers, err := resourceproviders.ExtractResourceProviders(pages)
	if err != nil || len(providers) != 1 {
		t.Errorf("resource provider cn1: got %v, error %v", providers, err)
	}
	if status := served.stop(); status != 0 {
		t.Errorf("exit status after the signal: got %d, want 0; %s", status, served.stderr)
	}
}

func TestASignalBeforeTheServerListensIsNotAFailure(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"serve", "placement", "cyborg --placement-url http://127.0.0.1:1"} {
		ctx, signal := context.WithCancel(t.Context())
		signal()
		var stdout, stderr bytes.Buffer
		if status := run(ctx, strings.Fields(command), &stdout, &stderr); status != 0 {
			t.Errorf("%s: got status %d, %s; want 0", command, status, stderr.String())
		}
	}
}

func TestServePrintsTheVariablesOfOpenStackClients(t *testing.T) {
	t.Parallel()
	served := start(t, "serve", "--region", "Here")
	want := map[string]string{
		"OS_AUTH_URL": served.env["OS_AUTH_URL"], "OS_USERNAME": "admin", "OS_PASSWORD": "secret", "OS_PROJECT_NAME": "admin",
		"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_IDENTITY_API_VERSION": "3",
		"OS_REGION_NAME": "Here", "CYSIM_URL": strings.TrimSuffix(served.env["OS_AUTH_URL"], "/v3"), "CYSIM_PID": fmt.Sprint(os.Getpid()),
	}
	if diff := cmp.Diff(want, served.env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if status, body := get(t, served.env["OS_AUTH_URL"], ""); status != http.StatusOK || !strings.Contains(body, `"v3`) {
		t.Errorf("GET OS_AUTH_URL: got %d, %s", status, body)
	}
}

// The users of a model have passwords of their own.
func TestServePrintsThePasswordsOfTheModel(t *testing.T) {
	t.Parallel()
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	file := writeFile(t, "model.json", `{"users": [{"name": "admin", "password": "0f-admin", "roles": {"admin": ["admin"]}}, {"name": "demo", "password": "0f-demo", "roles": {"demo": ["member"]}}]}`)
	if got := start(t, "serve", "--model", file).env["OS_PASSWORD"]; got != "0f-admin" {
		t.Errorf("OS_PASSWORD is %q", got)
	}
	served := start(t, "serve", "--model", file, "--clouds-yaml", clouds)
	for _, cloud := range []string{"sim", "sim-demo", "sim-svc"} {
		login(t, clouds, cloud)
	}
	served.stop()
	if strings.Contains(fmt.Sprint(served.stderr), "0f-admin") {
		t.Errorf("the log has the password: %s", served.stderr)
	}
}

// model returns the model that a cysim serves.
func model(t *testing.T, served *running) map[string]any {
	t.Helper()
	status, body := get(t, served.env["CYSIM_URL"]+"/_sim/model", "")
	var answer struct {
		Model map[string]any `json:"model"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("GET /_sim/model: got %d, %v, %s", status, err, body)
	}
	return answer.Model
}

func TestFlagsOverrideTheModelFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "model.json", `{"seed": 7, "strict_instances": true, "hosts": [{"name": "only"}],
		"cyborg": {"release": "zed", "upstream_quirks": true}, "placement": {"policy": "secure"}}`)
	type brief struct {
		Seed, Strict, Release, Quirks, Policy any
		Hosts                                 int
	}
	tests := []struct {
		name  string
		flags []string
		want  brief
	}{
		{"file alone", nil, brief{7.0, true, "zed", true, "secure", 1}},
		{
			"flags over it", []string{"--seed", "8", "--strict-instances=false", "--cyborg-release", "2026.2"},
			brief{8.0, nil, "2026.2", true, "secure", 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			served := model(t, start(t, append([]string{"serve", "--model", file}, tt.flags...)...))
			cyborg, _ := served["cyborg"].(map[string]any)
			placement, _ := served["placement"].(map[string]any)
			hosts, _ := served["hosts"].([]any)
			got := brief{served["seed"], served["strict_instances"], cyborg["release"], cyborg["upstream_quirks"], placement["policy"], len(hosts)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("world (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServeReadsHardwareFromADirectory(t *testing.T) {
	t.Parallel()
	sysfs := t.TempDir()
	device := filepath.Join(sysfs, "bus/pci/devices/0000:06:00.0")
	must(t, os.MkdirAll(device, 0o700))
	for name, content := range map[string]string{
		"vendor": "0x10de\n", "device": "0x15f8\n", "class": "0x030200\n", "revision": "0xa1\n",
		"subsystem_vendor": "0x10de\n", "subsystem_device": "0x118f\n",
	} {
		must(t, os.WriteFile(filepath.Join(device, name), []byte(content), 0o600))
	}
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	start(t, "serve", "--sysfs", sysfs, "--clouds-yaml", file)
	if names := providerNames(t, file); len(names) != 2 || !strings.Contains(strings.Join(names, " "), "_0000:06:00.0") {
		t.Errorf("resource providers: got %s, want a host and its one GPU", names)
	}
}

func TestServeForwardsEvents(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	agent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- string(body)
	}))
	t.Cleanup(agent.Close)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--clouds-yaml", file, "--events-to", agent.URL)
	const event = `{"events": [{"name": "accelerator-request-bound", "server_uuid": "bbbbbbbb-0000-4000-8000-000000000001", "tag": "cccccccc-0000-4000-8000-000000000001", "status": "completed"}]}`
	url, token := served.env["CYSIM_URL"]+"/compute/v2.1/os-server-external-events", login(t, file, "sim-svc").Token()
	if status, text := reply(t, http.MethodPost, url, event, "X-Auth-Token: "+token, "OpenStack-API-Version: compute 2.82"); status != http.StatusOK {
		t.Fatalf("status: got %d %s, want 200", status, text)
	}
	if body := <-got; !strings.Contains(body, "cccccccc-0000-4000-8000-000000000001") {
		t.Errorf("the agent got %s", body)
	}
}

func TestPlacementAndCyborgAlone(t *testing.T) {
	t.Parallel()
	placement := start(t, "placement")
	root := placement.env["CYSIM_PLACEMENT_URL"]
	for _, host := range []string{"cn0", "cn1"} {
		addHost(t, root, host)
	}
	file := writeFile(t, "model.json", `{"cyborg": {"release": "zed"}}`)
	cyborg := start(t, "cyborg", "--placement-url", root, "--model", file)
	if status, body := get(t, cyborg.env["CYSIM_ACCELERATOR_URL"]+"/device_profiles", "admin"); status != http.StatusOK || !strings.Contains(body, `"vgpu"`) {
		t.Errorf("device profiles: got %d, %s", status, body)
	}
	if status, body := get(t, cyborg.env["CYSIM_ACCELERATOR_URL"], ""); status != http.StatusOK || !strings.Contains(body, `"2.2"`) {
		t.Errorf("version document of zed: got %d, %s", status, body)
	}
	if status, body := get(t, root+"/resource_providers", "admin"); status != http.StatusOK || !strings.Contains(body, "cn1_0000:3b:00.0") {
		t.Errorf("resource providers: got %d, %s; want the devices that Cyborg reported", status, body)
	}
	for path, want := range map[string]string{
		"health": `"ok"`, "routes": `"placement.reshaper.post"`, "requests": `"placement.resource_provider.create"`, "faults": `"rules":[]`,
		"explain?resources=PGPU:9": "host cn1: the group without suffix: ",
	} {
		if status, body := get(t, root+"/_sim/"+path, ""); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET /_sim/%s: got %d, %s; want %s", path, status, body, want)
		}
	}
	if status := cyborg.stop(); status != 0 {
		t.Errorf("exit status of cyborg: got %d; %s", status, cyborg.stderr)
	}
	if status := placement.stop(); status != 0 {
		t.Errorf("exit status of placement: got %d; %s", status, placement.stderr)
	}
}

// addHost makes the provider of a host in a Placement.
func addHost(t *testing.T, placement, name string) {
	t.Helper()
	put(t, http.MethodPost, placement+"/resource_providers", `{"name": "`+name+`"}`, "X-Auth-Token: admin", "OpenStack-API-Version: placement 1.20")
}
