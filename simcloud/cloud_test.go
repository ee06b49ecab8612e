package simcloud_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestTheDefaultModel(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	if diff := cmp.Diff([]string{"cn0", "cn1"}, cloud.HostNames()); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	names := make(map[string]string)
	for _, p := range cloud.Placement.ResourceProviders() {
		names[p.UUID] = p.Name
	}
	got := make(map[string]string)
	for _, p := range cloud.Placement.ResourceProviders() {
		if strings.HasPrefix(p.Name, "cn1") {
			continue // as cn0
		}
		totals := make(map[string]int)
		for class, inventory := range p.Inventories {
			totals[class] = inventory.Total
		}
		slices.Sort(p.Traits)
		got[p.Name] = fmt.Sprintf("below %q: %v %v", names[p.Parent], totals, p.Traits)
	}
	want := map[string]string{
		"cn0":                  `below "": map[DISK_GB:4000 MEMORY_MB:262144 VCPU:64] [COMPUTE_ACCELERATORS OWNER_NOVA]`,
		"cn0_nic":              `below "cn0": map[SRIOV_NET_VF:8] [CUSTOM_PHYSNET_PUBLIC]`,
		"cn0_0000:c1:00.0":     `below "cn0": map[CUSTOM_PCI_8086_37C8:1] [OWNER_NOVA]`,
		"cn0_pci_0000_e1_00_0": `below "cn0": map[VGPU:4] [OWNER_NOVA]`,
		"cn0_FakeDevice":       `below "cn0": map[FPGA:16] [CUSTOM_FAKE_DEVICE OWNER_CYBORG]`,
		"cn0_0000:3b:00.0":     `below "cn0": map[PGPU:1] [CUSTOM_GPU_NVIDIA CUSTOM_NVIDIA_15F8 OWNER_CYBORG]`,
		"cn0_0000:5e:00.0":     `below "cn0": map[PGPU:1] [CUSTOM_GPU_NVIDIA CUSTOM_NVIDIA_15F8 OWNER_CYBORG]`,
		"cn0_0000:af:00.0":     `below "cn0": map[VGPU:16] [CUSTOM_GPU_NVIDIA CUSTOM_NVIDIA_1EB8_T4_1B OWNER_CYBORG]`,
		"cn0_0000:d8:00.0":     `below "cn0": map[FPGA:1] [CUSTOM_FPGA_INTEL CUSTOM_FPGA_INTEL_PAC_ARRIA10 CUSTOM_FPGA_REGION_INTEL_9926AB6D6C925A68AABCA7D84C545738 CUSTOM_PROGRAMMABLE OWNER_CYBORG]`,
		"cn0_0000:86:00.0":     `below "cn0": map[FPGA:2] [CUSTOM_FPGA_FUNCTION_ID_INTEL_C6AA954A9B914A37ABC11D9F0709DCC3 CUSTOM_FPGA_INTEL CUSTOM_FPGA_INTEL_PAC_D5005 CUSTOM_FPGA_REGION_INTEL_BFAC4D851EE856FE8C95865CE1BBAA2D CUSTOM_PROGRAMMABLE OWNER_CYBORG]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	var profiles, flavors []string
	for _, p := range cloud.Cyborg.DeviceProfiles() {
		profiles = append(profiles, p.Name)
	}
	for _, f := range cloud.Model().Flavors {
		flavors = append(flavors, f.Name+" "+f.ExtraSpecs["accel:device_profile"])
	}
	if diff := cmp.Diff([]string{"gpu", "vgpu", "fpga", "fake", "mixed"}, profiles); diff != "" {
		t.Errorf("device profiles (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"accel.gpu gpu", "accel.vgpu vgpu", "accel.fpga fpga", "accel.fake fake", "accel.mixed mixed"}, flavors); diff != "" {
		t.Errorf("flavors (-want +got):\n%s", diff)
	}
	if len(cloud.Requests()) != 0 {
		t.Errorf("building the world is in the record: %v", cloud.Requests()[0])
	}
	cloud.CheckNoLeaks(t)
}

func TestABindLeaksNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		profile, resources, traits, wantType string
		wantMdevs                            int
	}{
		{"gpu", "PGPU:1", "CUSTOM_NVIDIA_15F8", "PCI", 0},
		{"vgpu", "VGPU:1", "CUSTOM_GPU_NVIDIA", "MDEV", 1},
		{"fpga", "FPGA:1", "CUSTOM_FPGA_INTEL", "PCI", 0},
		{"fake", "FPGA:1", "CUSTOM_FAKE_DEVICE", "TEST_PCI", 0},
	}
	for _, tt := range tests {
		t.Run(tt.profile, func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t)
			u := login(t, cloud, "admin", "admin")
			var events []string
			cloud.HandleEvents(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Events []sim.Event }
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				for _, e := range body.Events {
					events = append(events, strings.Join([]string{e.Name, e.ServerUUID, *e.Tag, e.Status}, " "))
				}
			}))
			s := u.spawn(1, tt.profile, tt.resources, tt.traits)
			if s.arq.AttachHandleType != tt.wantType {
				t.Errorf("handle type: got %s, want %s", s.arq.AttachHandleType, tt.wantType)
			}
			want := []string{"accelerator-request-bound " + s.uuid + " " + s.arq.UUID + " completed"}
			if diff := cmp.Diff(want, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			cloud.Placement.CheckUsage(t, s.provider, strings.TrimSuffix(tt.resources, ":1"), 1)
			checkMdevs(t, cloud, s.host, tt.wantMdevs)
			cloud.CheckNoLeaks(t)
			u.remove(s)
			checkMdevs(t, cloud, s.host, 0)
			cloud.CheckNoLeaks(t)
		})
	}
}

func checkMdevs(t *testing.T, cloud *simcloud.Cloud, host string, want int) {
	t.Helper()
	mdevs, err := cloud.Mdevs(host)
	if err != nil || len(mdevs) != want {
		t.Errorf("mediated devices of %s: got %v, %v; want %d", host, mdevs, err, want)
	}
}

func TestGophercloudFindsTheServices(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	service, err := openstack.NewPlacementV1(cloud.Provider(t), gophercloud.EndpointOpts{Region: "RegionOne"})
	must(t, err)
	service.Microversion = "1.20"
	pages, err := resourceproviders.List(service, resourceproviders.ListOpts{Name: "cn0"}).AllPages(t.Context())
	must(t, err)
	found, err := resourceproviders.ExtractResourceProviders(pages)
	if err != nil || len(found) != 1 || found[0].UUID != cloud.ProviderUUID("cn0") {
		t.Errorf("provider cn0: %v, %v", found, err)
	}
	for _, name := range []string{"admin", "alice", "cyborg", "demo", "manager", "nova", "reader"} {
		if _, err := cloud.ProviderClient(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if _, err := cloud.ProviderClient(t.Context(), "mallory"); err == nil || !strings.Contains(err.Error(), "mallory") {
		t.Errorf("unknown user: %v", err)
	}
	url, err := service.EndpointLocator(gophercloud.EndpointOpts{Type: "accelerator", Region: "RegionOne", Availability: gophercloud.AvailabilityPublic})
	if err != nil || url != cloud.URL()+"/accelerator/v2/" {
		t.Errorf("accelerator endpoint %q, %v", url, err)
	}
}

func TestTheSameSeedGivesTheSameCloud(t *testing.T) {
	t.Parallel()
	dump := func(seed uint64) map[string]any {
		cloud := simcloud.Run(t, simcloud.Model{Seed: seed})
		u := login(t, cloud, "admin", "admin")
		u.spawn(1, "gpu", "PGPU:1", "CUSTOM_NVIDIA_15F8")
		u.spawn(2, "vgpu", "VGPU:1", "CUSTOM_GPU_NVIDIA")
		var requests []string
		for _, r := range cloud.Requests() {
			requests = append(requests, r.Service+" "+r.Method+" "+r.Path+" "+r.RequestID)
		}
		arqs := cloud.Cyborg.ARQs()
		for i := range arqs {
			arqs[i].CreatedAt, arqs[i].UpdatedAt = time.Time{}, time.Time{}
		}
		return map[string]any{
			"providers": cloud.Placement.ResourceProviders(), "allocations": cloud.Placement.Allocations(),
			"devices": cloud.Cyborg.Devices(), "deployables": cloud.Cyborg.Deployables(), "handles": cloud.Cyborg.AttachHandles(),
			"arqs": arqs, "guests": cloud.Guests(), "requests": requests,
		}
	}
	first := dump(7)
	if diff := cmp.Diff(first, dump(7)); diff != "" {
		t.Errorf("two clouds of one seed (-first +second):\n%s", diff)
	}
	other := dump(8)
	for _, key := range []string{"devices", "handles", "arqs", "requests"} {
		if cmp.Equal(first[key], other[key]) {
			t.Errorf("%s are the same for another seed", key)
		}
	}
}

func TestCloudsAreIndependent(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t, simcloud.Model{Seed: uint64(i)})
			u := login(t, cloud, "admin", "admin")
			for n := range i + 1 {
				u.spawn(n, "vgpu", "VGPU:1", "CUSTOM_GPU_NVIDIA")
			}
			if got := len(cloud.Cyborg.ARQs()); got != i+1 {
				t.Errorf("%d accelerator requests, want %d", got, i+1)
			}
			cloud.CheckNoLeaks(t)
		})
	}
}

func TestRunsInABubbleOfVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{BindDelay: 20 * time.Second}})
		u := login(t, cloud, "admin", "admin")
		start := time.Now()
		bound := make(chan time.Duration, 1)
		cloud.HandleEvents(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { bound <- time.Since(start) }))
		provider, host := u.claim(instance(1), "VGPU:1", "CUSTOM_GPU_NVIDIA")
		u.bind(u.createARQs("vgpu")[0], instance(1), provider, host)
		if after := <-bound; after != 20*time.Second {
			t.Errorf("the event came after %s", after)
		}
		synctest.Wait()
		cloud.Cyborg.CheckBound(t, instance(1), 1)
		time.Sleep(2 * time.Hour) // the services' tokens expire and are renewed
		u = login(t, cloud, "admin", "admin")
		u.do("DELETE", "/accelerator/v2/accelerator_requests?instance="+instance(1), accelerator, nil, 204, nil)
		u.do("DELETE", "/placement/allocations/"+instance(1), placement, nil, 204, nil)
		if err := cloud.Cyborg.Report(t.Context()); err != nil {
			t.Error(err)
		}
		cloud.CheckNoLeaks(t)
	})
}

func TestFaultsReachEveryService(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	u := login(t, cloud, "admin", "admin")
	tests := []struct {
		operation             sim.OperationName
		method, path, version string
	}{
		{fault.TokenCreate, "POST", "/v3/auth/tokens", ""},
		{fault.ResourceProviderList, "GET", "/placement/resource_providers", placement},
		{fault.ARQList, "GET", "/accelerator/v2/accelerator_requests", accelerator},
		{fault.ExternalEventsCreate, "POST", "/compute/v2.1/os-server-external-events", "compute 2.82"},
	}
	for _, tt := range tests {
		must(t, cloud.Faults().Set(fault.Rule{Operation: tt.operation, Action: fault.Status, Status: 503}))
		if res := u.send(tt.method, tt.path, tt.version, "{}"); res.status != 503 {
			t.Errorf("%s: got %d %s, want 503", tt.operation, res.status, res.body)
		}
	}
	last := cloud.Requests()[len(cloud.Requests())-1]
	if last.Operation != fault.ExternalEventsCreate || last.Fault != "status" || last.Status != 503 {
		t.Errorf("recorded: %+v", last)
	}
	cloud.ForgetRequests()
	if len(cloud.Requests()) != 0 {
		t.Error("requests are remembered")
	}
}

func TestStrictInstancesAcceptEventsOfGuestsOnly(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{StrictInstances: true})
	u := login(t, cloud, "nova", "service")
	post := func(want int) {
		t.Helper()
		body := map[string]any{"events": []map[string]string{{"name": "accelerator-request-bound", "server_uuid": instance(1), "tag": "x"}}}
		u.do("POST", "/compute/v2.1/os-server-external-events", "compute 2.82", body, want, nil)
	}
	post(207)
	must(t, cloud.DefineGuest(sim.Guest{UUID: instance(1), Host: "cn0"}))
	post(200)
	cloud.RemoveGuest(instance(1))
	post(207)
	var codes []int
	for _, e := range cloud.ReceivedEvents() {
		codes = append(codes, e.Code)
	}
	if diff := cmp.Diff([]int{404, 200, 404}, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

func TestGuestsOverTheControlAPI(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	remote := sim.Control{URL: cloud.URL() + "/", Client: &http.Client{Transport: cloud.Transport()}}
	guest := sim.Guest{UUID: instance(1), Host: "cn0", Domain: "<domain/>"}
	must(t, remote.DefineGuest(t.Context(), guest))
	if diff := cmp.Diff([]sim.Guest{guest}, cloud.Guests()); diff != "" {
		t.Errorf("guests (-want +got):\n%s", diff)
	}
	if err := remote.DefineGuest(t.Context(), sim.Guest{UUID: "7", Host: "cn0"}); err == nil || !strings.Contains(err.Error(), "UUID") {
		t.Errorf("a bad UUID: %v", err)
	}
	for range 2 { // the second finds none
		if err := remote.RemoveGuest(t.Context(), guest.UUID); err != nil || len(cloud.Guests()) != 0 {
			t.Errorf("%d guests, %v", len(cloud.Guests()), err)
		}
	}
	if err := (sim.Control{}).DefineGuest(t.Context(), guest); err == nil || !strings.Contains(err.Error(), guest.UUID) {
		t.Errorf("without a cloud: %v", err)
	}
}

func TestEventsAreForwarded(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	got := make(chan string, 1)
	agent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	defer agent.Close()
	must(t, cloud.ForwardEventsTo(agent.URL+"/events"))
	if err := cloud.ForwardEventsTo("ftp://x"); err == nil {
		t.Error("a bad URL was taken")
	}
	login(t, cloud, "admin", "admin").spawn(1, "fake", "FPGA:1", "CUSTOM_FAKE_DEVICE")
	if path := <-got; path != "/events" {
		t.Errorf("posted to %s", path)
	}
}

func TestTheCloudOnASocket(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	server := httptest.NewServer(cloud.Handler())
	defer server.Close()
	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: server.URL + "/identity/v3", Username: "demo", Password: simcloud.Password, DomainName: "Default",
		Scope: &gophercloud.AuthScope{ProjectName: "demo", DomainName: "Default"},
	})
	must(t, err)
	url, err := provider.EndpointLocator(gophercloud.EndpointOpts{Type: "placement", Availability: gophercloud.AvailabilityPublic})
	if err != nil || url != server.URL+"/placement/" {
		t.Errorf("placement endpoint %q, %v; want it below %s", url, err, server.URL)
	}
}

func TestControlRoutes(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	u := login(t, cloud, "admin", "admin")
	guest := "/_sim/guests/" + instance(1)
	tests := []struct {
		method, path, body string
		want               int
		text               string
	}{
		{"GET", "/_sim/health", "", 200, `"status":"ok"`},
		{"GET", "/_sim/guests", "", 200, `"guests":[]`},
		{"PUT", guest, `{"host":"cn0","domain":"<domain/>"}`, 200, `"host":"cn0"`},
		{"PUT", guest, `{"hots":"cn0"}`, 400, "hots"},
		{"PUT", guest, `{"uuid":"` + instance(2) + `"}`, 400, "differs"},
		{"PUT", guest, `{"domain":"<pool/>"}`, 400, "pool"},
		{"PUT", guest, `{} {}`, 400, "something follows"},
		{"PUT", guest, `{`, 400, ""},
		{"PUT", "/_sim/guests/7", `{}`, 400, "UUID"},
		{"GET", guest, "", 200, `"domain":"<domain/>"`},
		{"GET", "/_sim/guests", "", 200, instance(1)},
		{"GET", "/_sim/leaks", "", 200, `"leaks":[]`},
		{"DELETE", guest, "", 204, ""},
		{"DELETE", guest, "", 404, ""},
		{"GET", guest, "", 404, ""},
		{"GET", "/_sim/model", "", 200, `"name":"cn1"`},
		{"GET", "/_sim/events", "", 200, `"events":[]`},
		{"GET", "/_sim/faults", "", 200, `"rules":[]`},
		{"GET", "/_sim/requests", "", 200, "/identity/v3/auth/tokens"},
		{"GET", "/_sim/routes", "", 200, "identity.token.create"},
		{"GET", "/_sim/routes", "", 200, `"operation":"placement.allocations.put"`},
		{"GET", "/_sim/routes", "", 200, `"operation":"accelerator.arq.bind"`},
		{"GET", "/_sim/explain?resources=PGPU:99", "", 200, "host cn1: the group without suffix: "},
		{"GET", "/_sim/explain?resources=PGPU", "", 400, "Badly formed resources"},
		{"POST", "/_sim/report", "", 204, ""},
		{"GET", "/_sim/requests", "", 200, `"service":"placement"`},
		{"GET", "/_sim/nothing", "", 404, ""},
		{"GET", "/nothing", "", 404, "<h1>Not Found</h1>"},
	}
	for _, tt := range tests { // in order
		res := u.send(tt.method, tt.path, "", tt.body)
		if res.status != tt.want || !strings.Contains(res.body, tt.text) {
			t.Errorf("%s %s %s: got %d %s, want %d with %q", tt.method, tt.path, tt.body, res.status, res.body, tt.want, tt.text)
		}
		if strings.HasPrefix(tt.path, "/_sim/") && res.body != "" && !strings.HasSuffix(res.body, "\n") {
			t.Errorf("%s %s: the answer is not a line of a terminal: %s", tt.method, tt.path, res.body)
		}
	}
	var body struct{ Model json.RawMessage }
	u.do("GET", "/_sim/model", "", nil, 200, &body)
	parsed, err := simcloud.ParseModel(body.Model)
	must(t, err)
	if diff := cmp.Diff(cloud.Model(), parsed); diff != "" {
		t.Errorf("the model read back (-want +got):\n%s", diff)
	}
}

// captured writes the sysfs of a T4 below a directory, like a copy of a real one.
func captured(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	device := filepath.Join(dir, "devices/pci0000:3a/0000:3b:00.0")
	files := map[string]string{
		"vendor": "0x10de", "device": "0x1eb8", "class": "0x030200", "subsystem_vendor": "0x10de", "subsystem_device": "0x12a2", "revision": "0xa1",
		"mdev_supported_types/nvidia-222/name":                "GRID T4-1B",
		"mdev_supported_types/nvidia-222/available_instances": "16",
		"mdev_supported_types/nvidia-222/device_api":          "vfio-pci",
		"mdev_supported_types/nvidia-222/create":              "",
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(device, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(files[name]+"\n"), 0o644))
	}
	for _, sub := range []string{"bus/pci/devices", "bus/mdev/devices", "class/mdev_bus", "devices/pci0000:3a/0000:3b:00.0/mdev_supported_types/nvidia-222/devices"} {
		must(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	for link, target := range map[string]string{
		"bus/pci/devices/0000:3b:00.0": "../../../devices/pci0000:3a/0000:3b:00.0",
		"class/mdev_bus/0000:3b:00.0":  "../../devices/pci0000:3a/0000:3b:00.0",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	return dir
}

func TestADirectoryIsNotWritten(t *testing.T) {
	t.Parallel()
	dir := captured(t)
	m, err := simcloud.ParseModel([]byte(`{"hosts":[{"name":"real","sysfs":{"dir":` + fmt.Sprintf("%q", dir) + `},
		"drivers":{"nvidia":{"enabled_vgpu_types":[{"name":"nvidia-222","device_addresses":["0000:3b:00.0","0000:ff:00.0"]}]}}}]}`))
	must(t, err)
	cloud := simcloud.Run(t, m)
	var problems []driver.Problem
	for _, f := range cloud.Findings() {
		problems = append(problems, f.Problems...)
	}
	if len(problems) != 1 || problems[0].Address != "0000:ff:00.0" {
		t.Errorf("problems of the directory: %v, want the card that is not there", problems)
	}
	s := login(t, cloud, "admin", "admin").spawn(1, "vgpu", "VGPU:1", "")
	cloud.CheckNoLeaks(t)
	checkMdevs(t, cloud, "real", 1)
	if got := cloud.Overlaid("real"); len(got) != 1 || !strings.HasSuffix(got[0], "nvidia-222/create <- "+s.arq.AttachHandleUUID) {
		t.Errorf("recorded writes: %q, want the making of %s", got, s.arq.AttachHandleUUID)
	}
	data, err := os.ReadFile(filepath.Join(dir, "devices/pci0000:3a/0000:3b:00.0/mdev_supported_types/nvidia-222/create"))
	if err != nil || string(data) != "\n" {
		t.Errorf("the directory was written: %q, %v", data, err)
	}
	cloud.RemoveGuest(s.uuid)
	leaks := cloud.Leaks()
	if len(leaks) != 2 || leaks[0].Kind != simcloud.LeakARQ || leaks[1].Kind != simcloud.LeakAllocation {
		t.Errorf("leaks without the guest: %v", leaks)
	}
}

func TestAgentsOfAModelWorkWithACyborgAlone(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]simcloud.Model{"default": {}, "directory": {Hosts: []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Dir: captured(t)}}}}} {
		agents, err := m.Agents()
		must(t, err)
		server, err := fakecyborg.New(fakecyborg.Config{})
		must(t, err)
		for _, h := range agents.Hosts {
			must(t, server.AddHost(h))
		}
		if err := server.Report(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := map[string]int{"default": 12, "directory": 1}[name]
		if got := len(server.Devices()); got != want {
			t.Errorf("%s: %d devices, want %d", name, got, want)
		}
		server.Close()
		if err := agents.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]string{
		`{"hosts":[{"name":"a","sysfs":{"dir":"/does/not/exist"}}]}`:                             "hosts[0].sysfs.dir",
		`{"hosts":[{"name":"a","sysfs":{},"drivers":{"nvidia":{"extra_traits":["no trait"]}}}]}`: "hosts[0].drivers.nvidia",
	} {
		m, err := simcloud.ParseModel([]byte(text))
		must(t, err)
		if _, err := m.Agents(); !errors.Is(err, simcloud.ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %s", text, err, want)
		}
	}
	if _, err := (simcloud.Model{Hosts: []simcloud.Host{{}}}).Agents(); !errors.Is(err, simcloud.ErrModel) {
		t.Errorf("a host without name: %v", err)
	}
}

func TestUnknownHosts(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{}})
	if _, err := cloud.Mdevs("cn7"); err == nil || cloud.ProviderUUID("cn7") != "" || cloud.Overlaid("cn7") != nil {
		t.Errorf("unknown host: %v", err)
	}
	if got := cloud.HostNames(); len(got) != 0 {
		t.Errorf("hosts: %v", got)
	}
	if cloud.ProjectID("mallory") != "" {
		t.Error("project of an unknown user")
	}
}

func TestScaleModel(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.ScaleModel(3, 8))
	if got := len(cloud.Cyborg.Deployables()); got != 24 || len(cloud.HostNames()) != 3 {
		t.Errorf("%d deployables on hosts %v", got, cloud.HostNames())
	}
	vgpus := simcloud.Run(t, simcloud.Scale{Hosts: 2, GPUs: 1, VGPUs: 20}.Model())
	handles := map[string]int{}
	for _, h := range vgpus.Cyborg.AttachHandles() {
		handles[h.Type]++
	}
	if diff := cmp.Diff(map[string]int{driver.HandlePCI: 2, driver.HandleMDEV: 40}, handles); diff != "" {
		t.Errorf("attach handles of two hosts with a GPU and 20 vGPUs each (-want +got):\n%s", diff)
	}
	login(t, cloud, "admin", "admin").spawn(1, "gpu", "PGPU:1", "")
	cloud.CheckNoLeaks(t)
}

func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		cloud, err := simcloud.New(b.Context(), simcloud.Model{})
		if err != nil {
			b.Fatal(err)
		}
		if err := cloud.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// The seed of the model decides which requests a rule with a probability hits.
func TestTheModelsSeedDecidesAboutProbabilities(t *testing.T) {
	t.Parallel()
	hits := func(seed uint64) (got string) {
		cloud := simcloud.Run(t, simcloud.Model{Seed: seed, Hosts: []simcloud.Host{}})
		must(t, cloud.Faults().Set(fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop, Probability: 0.5}))
		for range 64 {
			_, hit := cloud.Faults().Decide(fault.AllocationsPut, instance(1))
			got += fmt.Sprint(hit, " ")
		}
		return got
	}
	one, same, two := hits(1), hits(1), hits(2)
	if one != same || one == two {
		t.Errorf("the same seed repeats: %t, another differs: %t", one == same, one != two)
	}
}

// An agent whose service token has expired is refused by every service, as by a real one.
func TestEveryServiceRefusesAnInvalidServiceToken(t *testing.T) {
	t.Parallel()
	u := login(t, simcloud.Run(t), "admin", "admin")
	valid := u.service
	for path, version := range map[string]string{
		"/placement/resource_providers": placement, "/accelerator/v2/devices": accelerator, "/compute/v2.1/flavors": "", "/image/v2/images": "",
	} {
		for service, want := range map[string]int{valid: 200, "": 200, "expired": 401} {
			u.service = service
			got := u.send("GET", path, version, "")
			if got.status != want || (want == 401) != strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Keystone uri=") {
				t.Errorf("GET %s with the service token %q: %d %v, want %d", path, service, got.status, got.header, want)
			}
		}
	}
}

// Users of the model log in with their own passwords, those that replace one of DevStack's included.
func TestUsersLogInWithTheirOwnPasswords(t *testing.T) {
	t.Parallel()
	roles := map[string][]string{"service": {"service", "admin"}}
	cloud := simcloud.Run(t, simcloud.Model{Users: []simcloud.User{
		{Name: "admin", Password: "of admin", Roles: roles}, {Name: "nova", Password: "of nova", Roles: roles},
		{Name: "bob", Password: "of bob", Roles: roles}, {Name: "eve", Roles: roles},
	}})
	cloud.Provider(t)
	cloud.ServiceProvider(t)
	for user, want := range map[string]string{
		"admin": "of admin", "nova": "of nova", "bob": "of bob", "eve": simcloud.Password, "demo": simcloud.Password, "mallory": "",
	} {
		if _, err := cloud.ProviderClient(t.Context(), user); (err == nil) != (want != "") || cloud.PasswordOf(user) != want {
			t.Errorf("%s: password %q, want %q; error %v", user, cloud.PasswordOf(user), want, err)
		}
	}
	rule := fault.Rule{Operation: fault.TokenCreate, Action: fault.Status, Status: http.StatusUnauthorized}
	must(t, cloud.Faults().Set(rule))
	if _, err := cloud.ProviderClient(t.Context(), "bob"); err == nil || strings.Contains(err.Error(), "of bob") {
		t.Errorf("got error %v, want one without the password", err)
	}
}
