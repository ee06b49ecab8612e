// Package docs_test runs the snippets of the documentation.
package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// words splits a command line as a shell does with single quotes.
func words(line string) []string {
	var list []string
	for _, match := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		list = append(list, match[1]+match[2])
	}
	return list
}

// useCase is one snippet that creates a profile and a flavor.
type useCase struct {
	profile cyborgclient.CreateDeviceProfileOpts
	flavor  requestspec.Flavor
}

func parseUseCase(t *testing.T, snippet string) (useCase, bool) {
	t.Helper()
	u := useCase{flavor: requestspec.Flavor{ExtraSpecs: map[string]string{}}}
	for line := range strings.Lines(snippet) {
		args := words(line)
		switch {
		case strings.HasPrefix(line, "openstack accelerator device profile create "):
			u.profile.Name = args[5]
			if err := json.Unmarshal([]byte(args[6]), &u.profile.Groups); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		case strings.HasPrefix(line, "openstack flavor "):
			u.flavor.Name = args[3]
			u.readFlags(t, args[4:])
		}
	}
	return u, u.profile.Name != ""
}

func (u *useCase) readFlags(t *testing.T, args []string) {
	t.Helper()
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "--property" {
			key, value, _ := strings.Cut(args[i+1], "=")
			u.flavor.ExtraSpecs[key] = value
			continue
		}
		n, err := strconv.Atoi(args[i+1])
		if err != nil {
			t.Fatalf("%s %s: %v", args[i], args[i+1], err)
		}
		switch args[i] {
		case "--vcpus":
			u.flavor.VCPUs = n
		case "--ram":
			u.flavor.MemoryMB = n
		case "--disk":
			u.flavor.RootGB = n
		default:
			t.Fatalf("unknown flag %s", args[i])
		}
	}
}

func TestEveryUseCaseSpawns(t *testing.T) {
	t.Parallel()
	cases := 0
	for _, b := range blocksOf(t, "operators.md") {
		u, ok := parseUseCase(t, b.text)
		if !ok || !strings.Contains(b.text, "openstack flavor ") {
			continue // the profile of the first section is for a flavor in a file
		}
		cases++
		t.Run(u.profile.Name, func(t *testing.T) {
			t.Parallel()
			u.spawn(t)
		})
	}
	if cases < 8 {
		t.Errorf("found %d use cases, the page has at least 8", cases)
	}
}

func (u useCase) spawn(t *testing.T) {
	cloud := simcloud.Run(t)
	provider := cloud.Provider(t)
	cyborg, err := cyborgclient.New(provider, cyborgclient.WithServiceProvider(cloud.ServiceProvider(t)))
	if err != nil {
		t.Fatal(err)
	}
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	events := externalevent.NewRegistry()
	cloud.HandleEvents(events.Handler())
	if _, err := cyborg.CreateDeviceProfile(t.Context(), u.profile); err != nil {
		t.Fatal(err)
	}
	flow, err := spawn.New(cyborg, placement, spawn.WithEvents(events))
	if err != nil {
		t.Fatal(err)
	}
	const instance = "6cbb7f3e-62a3-4f4e-9d5a-3f0f7ad0b001"
	result, err := flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: u.flavor})
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, group := range u.profile.Groups {
		n, err := requestspec.ARQCount(group)
		if err != nil {
			t.Fatal(err)
		}
		want += n
	}
	if len(result.ARQs) != want || len(result.Devices)+len(result.Skipped) != want {
		t.Errorf("got %d ARQs, %d devices, %d left out; the profile asks for %d", len(result.ARQs), len(result.Devices), len(result.Skipped), want)
	}
	if err := cloud.DefineGuest(sim.Guest{UUID: instance, Host: result.Host, Domain: string(result.Domain)}); err != nil {
		t.Fatal(err)
	}
	cloud.CheckNoLeaks(t)
}

func TestTheCloudsFileIsRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(snippets(t, "operators.md", "yaml")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	for cloud, user := range map[string]string{"prod": "admin", "prod-service": "nova"} {
		auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName(cloud), clouds.WithLocations(file))
		if err != nil {
			t.Fatal(err)
		}
		if auth.Username != user || endpoint.Region != "RegionOne" {
			t.Errorf("cloud %s: got user %s in %s", cloud, auth.Username, endpoint.Region)
		}
	}
}

func TestTheTimeoutSnippetIsRead(t *testing.T) {
	t.Parallel()
	var config spawn.Config
	for _, b := range blocksOf(t, "operators.md") {
		if b.language == "ini" && b.section == "5. The timeout" {
			if err := config.ReadNovaConf(strings.NewReader(b.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if config.ARQBindingTimeout != 600*time.Second {
		t.Errorf("got %s", config.ARQBindingTimeout)
	}
}
