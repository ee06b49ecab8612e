package simcloud_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// shared is a host with cards of Nova and of Cyborg.
const shared = `{
  "hosts": [{
    "name": "cn0",
    "nova": {
      "vgpus": [{"address": "0000:41:00.0", "total": 4}],
      "pci": [{"address": "0000:c1:00.0", "vendor": "8086", "product": "37c8", "total": 2}],
      "device_spec": [{"vendor_id": "8086"}]
    },
    "sysfs": {"devices": [
      {"address": "0000:3b:00.0", "vendor": "10de", "product": "15f8", "class": "0302"},
      {"address": "0000:af:00.0", "vendor": "10de", "product": "1eb8", "class": "0302", "driver": "nvidia",
       "mdev_types": [{"type": "nvidia-222", "name": "GRID T4-1B", "available_instances": 4}]}
    ]},
    "drivers": {"nvidia": {"enabled_vgpu_types": [{"name": "nvidia-222", "device_addresses": ["0000:af:00.0"]}]}}
  }],
  "device_profiles": [
    {"name": "vgpu", "groups": [{"resources:VGPU": "1", "trait:OWNER_CYBORG": "required"}]},
    {"name": "gpu", "groups": [{"resources:PGPU": "1", "trait:OWNER_CYBORG": "required"}]}
  ]
}`

func parse(t *testing.T, text string) simcloud.Model {
	t.Helper()
	m, err := simcloud.ParseModel([]byte(text))
	must(t, err)
	return m
}

func TestEachProfileSelectsACardOfItsOwner(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, parse(t, shared))
	u := login(t, cloud, "admin", "admin")
	names := make(map[string]string)
	for _, p := range cloud.Placement.ResourceProviders() {
		names[p.UUID] = p.Name
	}
	landing := func(resources, traits string) []string {
		query := url.Values{"resources1": {resources}, "required1": {traits}, "group_policy": {"none"}}
		var candidates struct {
			Requests []struct {
				Mappings map[string][]string `json:"mappings"`
			} `json:"allocation_requests"`
		}
		u.do("GET", "/placement/allocation_candidates?"+query.Encode(), placement, nil, 200, &candidates)
		var on []string
		for _, r := range candidates.Requests {
			on = append(on, names[r.Mappings["1"][0]])
		}
		return on
	}
	for _, tt := range []struct{ what, resources, traits, want string }{
		{"flavor with a vGPU of Nova's", "VGPU:1", "OWNER_NOVA", "cn0_pci_0000_41_00_0"},
		{"device profile with a vGPU", "VGPU:1", "OWNER_CYBORG", "cn0_0000:af:00.0"},
		{"device profile with a GPU", "PGPU:1", "OWNER_CYBORG", "cn0_0000:3b:00.0"},
		{"PCI alias", "CUSTOM_PCI_8086_37C8:2", "OWNER_NOVA", "cn0_0000:c1:00.0"},
		{"plain flavor", "VCPU:1", "OWNER_NOVA", "cn0"},
	} {
		if diff := cmp.Diff([]string{tt.want}, landing(tt.resources, tt.traits)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
	for n, profile := range []string{"vgpu", "gpu"} {
		resources := map[string]string{"vgpu": "VGPU:1", "gpu": "PGPU:1"}[profile]
		if s := u.spawn(n+1, profile, resources, "OWNER_CYBORG"); s.host != "cn0" || s.arq.State != fakecyborg.StateBound {
			t.Errorf("%s: %+v", profile, s)
		}
	}
	cloud.CheckNoLeaks(t)
}

// A device that both Nova and Cyborg are configured for is Nova's: the agent refuses it and names the conflict. All else works.
func TestADeviceForCyborgAndNovaIsRefusedByTheAgent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, address, reason string }{
		"a card that Nova divides": {`"0000:41:00.0"`, `"0000:af:00.0"`, "0000:af:00.0", "resource provider cn0_pci_0000_af_00_0 carries OWNER_NOVA"},
		"a card by PCI alias":      {`"0000:c1:00.0"`, `"0000:3b:00.0"`, "0000:3b:00.0", "resource provider cn0_0000:3b:00.0 carries OWNER_NOVA"},
		"a whitelist by vendor": {`{"vendor_id": "8086"}`, `{"vendor_id": "10de", "product_id": "15f8"}`, "0000:3b:00.0",
			"entry 0 of Nova's [pci] device_spec admits 0000:3b:00.0"},
		"a whitelist by address": {`{"vendor_id": "8086"}`, `{"vendor_id": "1234"}, {"address": "*:af:00.*"}`, "0000:af:00.0",
			"entry 1 of Nova's [pci] device_spec admits 0000:af:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t, parse(t, strings.Replace(shared, tt.old, tt.new, 1)))
			var conflicts []driver.Notice
			for _, report := range cloud.Findings() {
				conflicts = append(conflicts, report.Conflicts...)
			}
			if len(conflicts) != 1 || conflicts[0].Address != tt.address || conflicts[0].Reason != tt.reason {
				t.Errorf("conflicts %+v, want one of %s: %s", conflicts, tt.address, tt.reason)
			}
			if err := cloud.Cyborg.Report(t.Context()); !errors.Is(err, fakecyborg.ErrOwnerConflict) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("the agent reports %v, want ErrOwnerConflict: %s", err, tt.reason)
			}
			u := login(t, cloud, "admin", "admin")
			if text, _ := u.section("hosts"); !strings.Contains(text, tt.address+" is offered by Nova, too: "+tt.reason) {
				t.Errorf("the status page does not say %s: %s:\n%s", tt.address, tt.reason, text)
			}
			for _, device := range cloud.Cyborg.Devices() {
				if device.ControlPath.Address().String() == tt.address {
					t.Errorf("Cyborg has %s", tt.address)
				}
			}
			other := map[string]string{"0000:af:00.0": "gpu", "0000:3b:00.0": "vgpu"}[tt.address]
			resources := map[string]string{"vgpu": "VGPU:1", "gpu": "PGPU:1"}[other]
			if s := u.spawn(1, other, resources, "OWNER_CYBORG"); s.arq.State != fakecyborg.StateBound {
				t.Errorf("%s: %+v", other, s)
			}
			cloud.CheckNoLeaks(t)
		})
	}
}

func TestUsersOfTheModelHaveTheirRoles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := simcloud.Model{TokenLifetime: time.Minute, Users: []simcloud.User{
			{Name: "boss", Roles: map[string][]string{"lab": {"manager"}}},
			{Name: "guest", Roles: map[string][]string{"lab": {"reader"}}},
			{Name: "blazar", Roles: map[string][]string{"service": {"service"}}},
		}}
		enforced := true
		m.Cyborg.EnforceNewDefaults = &enforced
		cloud := simcloud.Run(t, m)
		boss, guest := login(t, cloud, "boss", "lab"), login(t, cloud, "guest", "lab")
		id := boss.createARQs("gpu")[0]
		for _, tt := range []struct {
			who          *user
			method, path string
			want         int
		}{
			{guest, "GET", "/accelerator_requests/" + id, 200}, // the same project
			{guest, "DELETE", "/accelerator_requests/" + id, 403},
			{guest, "GET", "/devices", 403},
			{boss, "GET", "/devices", 200},
			{login(t, cloud, "demo", "demo"), "GET", "/accelerator_requests/" + id, 404},
			{login(t, cloud, "blazar", "service"), "GET", "/accelerator_requests", 403},
			{boss, "DELETE", "/accelerator_requests/" + id, 204},
		} {
			if got := tt.who.send(tt.method, "/accelerator/v2"+tt.path, accelerator, ""); got.status != tt.want {
				t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, got.status, got.body, tt.want)
			}
		}
		time.Sleep(time.Minute)
		if got := boss.send("GET", "/accelerator/v2/devices", accelerator, ""); got.status != 401 {
			t.Errorf("with an expired token: %d", got.status)
		}
		if got := login(t, cloud, "boss", "lab").send("GET", "/accelerator/v2/devices", accelerator, ""); got.status != 200 {
			t.Errorf("with a new token: %d", got.status)
		}
	})
}

// flat is a cloud without nested providers of Nova.
const flat = `{
  "hosts": [
    {"name": "cn0", "sysfs": {"devices": [
      {"address": "0000:3b:00.0", "vendor": "10de", "product": "15f8", "class": "0302"},
      {"address": "0000:5e:00.0", "vendor": "10de", "product": "15f8", "class": "0302"}
    ]}},
    {"name": "cn1"}
  ],
  "device_profiles": [{"name": "gpu", "groups": [{"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_15F8": "required"}]}],
  "cyborg": {"placement_mode": "flat"}
}`

func TestAFlatCloudSpawnsAndIsUpgraded(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, parse(t, flat))
	u := login(t, cloud, "admin", "admin")
	first, second := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_NVIDIA_15F8"), u.spawn(2, "gpu", "PGPU:1", "CUSTOM_NVIDIA_15F8")
	if first.provider != cloud.ProviderUUID("cn0") || second.provider != first.provider {
		t.Errorf("providers %s and %s, want that of cn0", first.provider, second.provider)
	}
	if a, b := first.arq.AttachHandleInfo["bus"], second.arq.AttachHandleInfo["bus"]; a == b {
		t.Errorf("both have the device on bus %s", a)
	}
	cloud.CheckNoLeaks(t)
	placement := sim.Endpoint{
		URL: cloud.URL() + "/placement", Client: &http.Client{Transport: cloud.Transport()},
		Token: func(context.Context) (string, error) { return u.token, nil },
	}
	_, err := fakecyborg.Unflatten(t.Context(), placement, fakecyborg.UnflattenOpts{})
	if !errors.Is(err, fakecyborg.ErrAllocated) || !strings.Contains(err.Error(), first.uuid) || !strings.Contains(err.Error(), second.uuid) {
		t.Errorf("while instances have GPUs: %v", err)
	}
	u.remove(first)
	u.remove(second)
	found, err := fakecyborg.Unflatten(t.Context(), placement, fakecyborg.UnflattenOpts{})
	if err != nil || len(found) != 1 || found[0].Name != "cn0" {
		t.Fatalf("found %+v, %v", found, err)
	}
	root, err := cloud.Placement.ResourceProvider(cloud.ProviderUUID("cn0"))
	if _, left := root.Inventories["PGPU"]; err != nil || left || root.Inventories["VCPU"].Total != 64 {
		t.Errorf("cn0: %+v, %v", root, err)
	}
}

func TestTheDefaultModelIsFlatOnRequest(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}})
	u := login(t, cloud, "admin", "admin")
	for n := 1; n <= 2; n++ {
		if s := u.spawn(n, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA"); s.provider != cloud.ProviderUUID(s.host) || s.arq.State != fakecyborg.StateBound {
			t.Errorf("spawned %+v, want a GPU on the provider of its host", s)
		}
	}
	if profiles := cloud.Cyborg.DeviceProfiles(); len(profiles) != 1 || profiles[0].Name != "gpu" {
		t.Errorf("device profiles %v, want gpu alone", profiles)
	}
	cloud.CheckNoLeaks(t)
}

func TestLeaksOnAFlatHostAreFoundByClass(t *testing.T) {
	t.Parallel()
	model := parse(t, strings.Replace(flat, `{"name": "cn1"}`, `{"name": "cn1", "devices": [{
		"vendor": "8086", "model": "x", "type": "FPGA", "controlpath_id": {"cpid_type": "PCI", "cpid_info": {"domain": "0000", "bus": "d8", "device": "00", "function": "0"}},
		"deployable_list": [
			{"name": "a", "num_accelerators": 1, "driver_name": "d", "attribute_list": [{"key": "rc", "value": "FPGA"}],
			 "attach_handle_list": [{"attach_type": "TEST_PCI", "attach_info": {"domain": "0000", "bus": "d8", "device": "00", "function": "1"}}]},
			{"name": "b", "num_accelerators": 1, "driver_name": "d", "attribute_list": [{"key": "rc", "value": "CUSTOM_NIC"}],
			 "attach_handle_list": [{"attach_type": "TEST_PCI", "attach_info": {"domain": "0000", "bus": "d8", "device": "00", "function": "2"}}]}]}]}`, 1))
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "fpga", Groups: []map[string]string{{"resources:FPGA": "1"}}})
	cloud := simcloud.Run(t, model)
	u := login(t, cloud, "admin", "admin")
	u.claim(instance(1), "FPGA:1,CUSTOM_NIC:1", "")
	arq := u.createARQs("fpga")[0]
	u.bind(arq, instance(1), cloud.ProviderUUID("cn1"), "cn1")
	must(t, cloud.DefineGuest(sim.Guest{UUID: instance(1), Host: "cn1", Domain: domainOf(t)}))
	leaks := cloud.Leaks()
	if len(leaks) != 1 || !strings.Contains(leaks[0].Text, "has allocated CUSTOM_NIC:1 on provider cn1, but has 0 accelerator requests there") {
		t.Errorf("leaks: %+v", leaks)
	}
}

func TestTheDefaultUsersHaveDifferentRoles(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	id := login(t, cloud, "demo", "demo").createARQs("gpu")[0]
	for name, want := range map[string][3]int{ // project, the request of demo, creating a profile
		"reader": {200, 200, 403}, "manager": {200, 200, 403}, "alice": {200, 404, 403}, "admin": {200, 200, 400},
	} {
		project := map[string]string{"alice": "lab", "admin": "admin"}[name]
		if project == "" {
			project = "demo"
		}
		u := login(t, cloud, name, project)
		got := [3]int{
			u.send("GET", "/accelerator/v2/device_profiles", accelerator, "").status,
			u.send("GET", "/accelerator/v2/accelerator_requests/"+id, accelerator, "").status,
			u.send("POST", "/accelerator/v2/device_profiles", accelerator, "[]").status,
		}
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
