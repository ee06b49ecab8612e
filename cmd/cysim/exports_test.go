package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreignVariables are variables of a shell for another cloud: what OpenStack's clients read of it.
func foreignVariables() []string {
	return strings.Fields(`
		OS_CLOUD OS_CLOUD_NAME OS_PROFILE OS_CLIENT_CONFIG_FILE OS_CLIENT_SECURE_FILE
		OS_AUTH_URL OS_AUTH_TYPE OS_AUTH_PLUGIN OS_IDENTITY_API_VERSION OS_REGION_NAME OS_INTERFACE OS_ENDPOINT_TYPE
		OS_USERNAME OS_USER_NAME OS_USERID OS_USER_ID OS_USER_DOMAIN_ID OS_USER_DOMAIN_NAME OS_PASSWORD OS_PASSCODE
		OS_TOKEN OS_AUTH_TOKEN OS_TRUST_ID OS_APPLICATION_CREDENTIAL_ID OS_APPLICATION_CREDENTIAL_NAME OS_APPLICATION_CREDENTIAL_SECRET
		OS_PROJECT_ID OS_PROJECT_NAME OS_PROJECT_DOMAIN_ID OS_PROJECT_DOMAIN_NAME OS_TENANT_ID OS_TENANT_NAME
		OS_DOMAIN_ID OS_DOMAIN_NAME OS_DEFAULT_DOMAIN OS_DEFAULT_DOMAIN_ID OS_DEFAULT_DOMAIN_NAME OS_SYSTEM_SCOPE
		OS_SERVICE_PROVIDER OS_REMOTE_PROJECT_ID OS_REMOTE_PROJECT_NAME OS_REMOTE_PROJECT_DOMAIN_ID OS_REMOTE_PROJECT_DOMAIN_NAME
		OS_CACERT OS_CERT OS_KEY OS_URL OS_ENDPOINT OS_ENDPOINT_OVERRIDE OS_SERVICE_TYPE OS_SERVICE_NAME
		OS_PLACEMENT_ENDPOINT_OVERRIDE OS_ACCELERATOR_ENDPOINT_OVERRIDE OS_COMPUTE_REGION_NAME OS_IMAGE_INTERFACE`)
}

// A shell that was set up for another cloud has only the variables of the simulated cloud after the eval, and what
// selects no cloud.
func TestTheShellHasTheVariablesOfTheSimulatedCloud(t *testing.T) {
	t.Parallel()
	dir, env := program(t)
	env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "OS_") })
	kept := []string{"OS_ARCH", "OS_COMPUTE_API_VERSION", "OS_PLACEMENT_API_VERSION"}
	for _, name := range slices.Concat(foreignVariables(), kept) {
		env = append(env, name+"=of another cloud")
	}
	clouds := filepath.Join(dir, "clouds.yaml")
	login := strings.Fields("OS_AUTH_URL OS_IDENTITY_API_VERSION OS_PASSWORD OS_PROJECT_DOMAIN_NAME OS_PROJECT_NAME OS_REGION_NAME OS_USERNAME OS_USER_DOMAIN_NAME")
	for _, tt := range []struct {
		name  string
		flags []string
		want  []string // the variables of OpenStack's clients
	}{
		{"one account", nil, login},
		{"a file with all accounts", []string{"--clouds-yaml", "clouds.yaml"}, []string{"OS_CLIENT_CONFIG_FILE"}},
		{"TLS", []string{"--clouds-yaml", clouds, "--tls-self-signed"}, []string{"OS_CACERT", "OS_CLIENT_CONFIG_FILE"}},
	} {
		serve := exec.CommandContext(t.Context(), filepath.Join(dir, "cysim"), append([]string{"serve", "--daemon", "--log", filepath.Join(dir, "log")}, tt.flags...)...)
		serve.Env, serve.Dir = env, dir
		printed, err := serve.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", tt.name, err, printed)
		}
		for _, shell := range []string{"sh", "bash", "zsh", "fish"} {
			path, err := exec.LookPath(shell)
			if err != nil {
				continue
			}
			strict := "set -eu\n"
			if shell == "fish" {
				strict = ""
			}
			command := exec.CommandContext(t.Context(), path, "-c", strict+string(printed)+"env")
			command.Env = env
			out, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("%s in %s: %v: %s", tt.name, shell, err, out)
			}
			values := make(map[string]string)
			for line := range strings.Lines(string(out)) {
				if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok && strings.HasPrefix(name, "OS_") {
					values[name] = value
				}
			}
			var left []string
			for name, value := range values {
				if foreign := value == "of another cloud"; foreign != slices.Contains(kept, name) {
					t.Errorf("%s in %s: %s=%s", tt.name, shell, name, value)
				}
				left = append(left, name)
			}
			slices.Sort(left)
			if diff := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(tt.want, kept))), left); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", tt.name, shell, diff)
			}
			if file, ok := values["OS_CLIENT_CONFIG_FILE"]; ok && file != clouds {
				t.Errorf("%s in %s: OS_CLIENT_CONFIG_FILE is %s, want %s", tt.name, shell, file, clouds)
			}
		}
		end := exec.CommandContext(t.Context(), "sh", "-c", string(printed)+`kill "$CYSIM_PID"`)
		end.Env = env
		if out, err := end.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// Every variable that gophercloud reads to log in is set or unset.
func TestTheVariablesOfGophercloudAreKnown(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gophercloud/gophercloud/v2").Output()
	if err != nil {
		t.Skip("the source of gophercloud is not at hand: ", err)
	}
	read := 0
	for _, name := range []string{"openstack/auth_env.go", "openstack/config/clouds/clouds.go", "openstack/config/clouds/tls.go"} {
		source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name))
		must(t, err)
		for _, match := range regexp.MustCompile(`os\.Getenv\("(OS_\w+)"\)`).FindAllSubmatch(source, -1) {
			read++
			if variable := string(match[1]); !clientVariables.MatchString(variable) || !slices.Contains(foreignVariables(), variable) {
				t.Errorf("%s reads %s, which a shell keeps", name, variable)
			}
		}
	}
	if read < 20 {
		t.Errorf("found %d variables", read)
	}
}

// Names are those of variables alone: an environment may hold any text, which a shell would run.
func TestOnlyNamesOfVariablesArePrinted(t *testing.T) {
	t.Parallel()
	got := clientVariablesIn([]string{"OS_TOKEN=a", "OS_TOKEN=b", "OS_CLOUD", "OS_X;date;_INTERFACE=1", "OS_x_INTERFACE=1", "XOS_CLOUD=1", "OS_CLOUD_=1", "OS_CLOUD\n=1", "=OS_CLOUD"})
	if diff := cmp.Diff([]string{"OS_CLOUD", "OS_TOKEN"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
