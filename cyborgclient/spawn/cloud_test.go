package spawn_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	clouds := "clouds:\n  sim: " + entry("admin", "admin", "RegionOne") + "\n  sim-svc: " + entry("nova", "service", "RegionOne") +
		"\n  elsewhere: " + entry("admin", "admin", "RegionTwo") + "\n  stranger: " + entry("stranger", "admin", "RegionOne")
	if err := os.WriteFile(path, []byte(clouds), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", path)

	flow, err := spawn.NewFromCloud(t.Context(), "sim", spawn.WithServiceCloud("sim-svc"))
	if err != nil {
		t.Fatal(err)
	}
	spawnAndRelease(t, cloud, flow, 0)
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
	if _, err := spawn.NewFromProvider(provider, spawn.WithServiceCloud("x")); !errors.Is(err, spawn.ErrConfig) {
		t.Errorf("NewFromProvider with WithServiceCloud: %v", err)
	}
	if _, err := spawn.NewFromProvider(nil); !errors.Is(err, spawn.ErrConfig) {
		t.Errorf("NewFromProvider without a provider: %v", err)
	}
}
