package spawn_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestAFlowFromCloudsYAML(t *testing.T) {
	// Not parallel: clouds.yaml is found through the environment.
	cloud := simcloud.Run(t)
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	entry := func(user, project, region string) string {
		return fmt.Sprintf("{region_name: %s, auth: {auth_url: %q, username: %s, password: secret, project_name: %s, user_domain_name: Default, project_domain_name: Default}}",
			region, server.URL+"/identity/v3", user, project)
	}
	path := filepath.Join(t.TempDir(), "clouds.yaml")
	clouds := "clouds:\n  sim-demo: " + entry("demo", "demo", "RegionOne") + "\n  sim: " + entry("admin", "admin", "RegionOne") + "\n  sim-svc: " + entry("nova", "service", "RegionOne") +
		"\n  elsewhere: " + entry("admin", "admin", "RegionTwo") + "\n  stranger: " + entry("stranger", "admin", "RegionOne")
	settled(t, os.WriteFile(path, []byte(clouds), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", path)

	flow, err := spawn.NewFromCloud(t.Context(), "sim", spawn.WithServiceCloud("sim-svc"))
	settled(t, err)
	spawnAndRelease(t, cloud, flow, 0)
	member, err := spawn.NewFromCloud(t.Context(), "sim-demo", spawn.WithServiceCloud("sim-svc"), spawn.WithPlacementCloud("sim-svc"))
	settled(t, err)
	spawnAndRelease(t, cloud, member, 0) // Placement refuses the member
	if _, err := spawn.NewFromCloud(t.Context(), "sim-demo", spawn.WithPlacementCloud("nope")); !errors.Is(err, spawn.ErrConfig) || !strings.Contains(err.Error(), `placement cloud: read cloud "nope"`) {
		t.Errorf("unknown placement cloud: %v", err)
	}
	if profiles, err := flow.Cyborg().ListDeviceProfiles(t.Context(), cyborgclient.ListDeviceProfilesOpts{}); err != nil || len(profiles) == 0 {
		t.Errorf("%d profiles, %v", len(profiles), err)
	}

	tests := []struct {
		name, cloud, service, want string
		config                     bool
	}{
		{"unknown cloud", "nope", "", `"nope"`, true},
		{"unknown service cloud", "sim", "nope", `service cloud: read cloud "nope"`, true},
		{"no such region", "elsewhere", "", "RegionTwo", true},
		{"refused login", "stranger", "", "401", false},
		{"refused login of the service", "sim", "stranger", `service cloud "stranger"`, false},
	}
	for _, test := range tests {
		_, err := spawn.NewFromCloud(t.Context(), test.cloud, spawn.WithServiceCloud(test.service))
		if err == nil || errors.Is(err, spawn.ErrConfig) != test.config || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestOptionsOfACloudAreRefusedWhereTheyHaveNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	provider := w.cloud.Provider(t)
	for name, opt := range map[string]spawn.Option{
		"WithServiceCloud":    spawn.WithServiceCloud("x"),
		"WithServiceProvider": spawn.WithServiceProvider(provider),
		"WithEndpointOpts":    spawn.WithEndpointOpts(gophercloud.EndpointOpts{Region: "RegionOne"}),
	} {
		if _, err := spawn.New(w.cyborg, w.placement(t), opt); !errors.Is(err, spawn.ErrConfig) {
			t.Errorf("New with %s: %v", name, err)
		}
	}
	for name, opt := range map[string]spawn.Option{"WithServiceCloud": spawn.WithServiceCloud("x"), "WithPlacementCloud": spawn.WithPlacementCloud("x")} {
		if _, err := spawn.NewFromProvider(provider, opt); !errors.Is(err, spawn.ErrConfig) {
			t.Errorf("NewFromProvider with %s: %v", name, err)
		}
	}
	if _, err := spawn.NewFromProvider(nil); !errors.Is(err, spawn.ErrConfig) {
		t.Errorf("NewFromProvider without a provider: %v", err)
	}
}

// confOf is a nova.conf with three users, and the given lines at its end.
func confOf(server string, more ...string) string {
	user := func(section, name, project string) string {
		return fmt.Sprintf("[%s]\nauth_type = password\nauth_url = %s/identity/v3\nusername = %s\npassword = secret\nproject_name = %s\nuser_domain_name = Default\nproject_domain_name = Default\n",
			section, server, name, project)
	}
	return "[DEFAULT]\narq_binding_timeout = 30\n" + user("placement", "nova", "service") + user("service_user", "nova", "service") +
		"send_service_user_token = true\n" + strings.Join(more, "\n") + "\n"
}

// A compute agent has Nova's configuration, and the user's token comes with a request.
func TestAFlowFromNovaConf(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	catalog := server.URL + "/accelerator/v2"
	for name, more := range map[string][]string{
		"the catalog's endpoints": nil,
		"the endpoints and regions of the sections": {
			"[cyborg]", "endpoint_override = " + catalog, "region_name = RegionOne", "[placement]", "endpoint_override = " + server.URL + "/placement", "valid_interfaces = adminURL",
		},
		"TLS options beside auth_section": {"[placement]", "auth_section = other", "insecure = yes", "[other]", "cafile = /nowhere", "auth_type = v3password", "auth_url = " + server.URL + "/identity/v3",
			"username = nova", "password = secret", "project_name = service", "default_domain_id = default"},
		"a user of another section": {"[service_user]", "auth_section = nova", "[nova]", "auth_plugin = v3password", "auth_url = " + server.URL + "/identity/v3", "username = nova",
			"password = secret", "project_name = service", "user_domain_id = default", "project_domain_id = default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flow, err := spawn.NewFromNovaConf(t.Context(), strings.NewReader(confOf(server.URL, more...)))
			settled(t, err)
			user, err := cloud.ProviderClient(t.Context(), "demo")
			settled(t, err)
			client, err := flow.Cyborg().ForToken(t.Context(), user.Token())
			settled(t, err)
			req := request("gpu")
			req.Instance = uuid.NewString()
			result, err := flow.As(client).Run(t.Context(), req)
			settled(t, err)
			if got := result.ARQs[0].ProjectID; got != cloud.ProjectID("demo") {
				t.Errorf("the ARQ is of project %s", got)
			}
			settled(t, flow.As(client).Release(t.Context(), req.Instance))
		})
	}
}

func TestAnUnusableNovaConfNamesItsOption(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	for _, test := range []struct {
		conf, want string
		config     bool
	}{
		{"", "[placement] auth_type is not set", true},
		{confOf(server.URL, "[placement]", "auth_type = v3oidcpassword"), `[placement] auth_type: "v3oidcpassword"`, true},
		{confOf(server.URL, "[service_user]", "auth_url ="), "[service_user] auth_url is not set", true},
		{confOf(server.URL, "[service_user]", "send_service_user_token = perhaps"), "[service_user] send_service_user_token", true},
		{confOf(server.URL, "[service_user]", "insecure = perhaps"), "[service_user] insecure", true},
		{confOf(server.URL, "[service_user]", "cafile = /nowhere"), "[service_user]", true},
		{confOf(server.URL, "[placement]", "region_name = RegionTwo"), "placement endpoint", true},
		{confOf(server.URL, "[DEFAULT]", "arq_binding_timeout = 0"), "arq_binding_timeout", true},
		{confOf(server.URL, "no section"), "neither [SECTION] nor OPTION", true},
		{confOf(server.URL, "[service_user]", "password = wrong"), "nova.conf: [service_user]", false},
	} {
		_, err := spawn.NewFromNovaConf(t.Context(), strings.NewReader(test.conf))
		if err == nil || errors.Is(err, spawn.ErrConfig) != test.config || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", test.want, err)
		}
	}
}
