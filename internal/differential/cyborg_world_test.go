//go:build differential

package differential_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

const cyborgPath = "/accelerator/v2"

// cyborgRoles are the users whose tokens requests have, with their projects.
var cyborgRoles = map[string]string{"admin": "admin", "demo": "demo", "nova": "service", "reader": "demo", "manager": "demo", "alice": "lab"}

const acceleratorHosts = 2

func acceleratorHost(i int) string { return fmt.Sprintf("node-%d", i) }

// accelerators are what an agent reports in all worlds: a whole GPU, one divided in two, and an FPGA with two functions.
func accelerators(host string) []driver.Device {
	var devices []driver.Device
	data := fmt.Appendf(nil, `[
		{"vendor": "10de", "model": "15f8", "type": "GPU", "std_board_info": "{\"controller\": \"3D controller\", \"product_id\": \"15f8\"}",
		 "controlpath_id": {"cpid_type": "PCI", "cpid_info": {"domain": "0000", "bus": "0a", "device": "00", "function": "0"}},
		 "deployable_list": [{"name": "%[1]s_0000:0a:00.0", "num_accelerators": 1, "driver_name": "nvidia",
			"attribute_list": [{"key": "rc", "value": "PGPU"}, {"key": "trait0", "value": "OWNER_CYBORG"}, {"key": "trait1", "value": "CUSTOM_GPU_NVIDIA"}],
			"attach_handle_list": [{"attach_type": "PCI", "attach_info": {"domain": "0000", "bus": "0a", "device": "00", "function": "0"}}]}]},
		{"vendor": "10de", "model": "1eb8", "type": "GPU", "std_board_info": "{\"controller\": \"3D controller\", \"product_id\": \"1eb8\"}",
		 "controlpath_id": {"cpid_type": "PCI", "cpid_info": {"domain": "0000", "bus": "0b", "device": "00", "function": "0"}},
		 "deployable_list": [{"name": "%[1]s_0000:0b:00.0_nvidia-222", "num_accelerators": 2, "driver_name": "nvidia",
			"attribute_list": [{"key": "rc", "value": "VGPU"}, {"key": "trait0", "value": "OWNER_CYBORG"}],
			"attach_handle_list": [
				{"attach_type": "MDEV", "attach_info": {"domain": "0000", "bus": "0b", "device": "00", "function": "0", "asked_type": "nvidia-222", "vGPU_mark": "nvidia-222_0"}},
				{"attach_type": "MDEV", "attach_info": {"domain": "0000", "bus": "0b", "device": "00", "function": "0", "asked_type": "nvidia-222", "vGPU_mark": "nvidia-222_1"}}]}]},
		{"vendor": "8086", "model": "09c4", "type": "FPGA", "std_board_info": "{\"class\": \"Processing accelerators\", \"device_id\": \"0x09c4\"}",
		 "controlpath_id": {"cpid_type": "PCI", "cpid_info": {"domain": "0000", "bus": "0c", "device": "00", "function": "0"}},
		 "deployable_list": [{"name": "%[1]s_0000:0c:00.0", "num_accelerators": 2, "driver_name": "intel",
			"attribute_list": [{"key": "rc", "value": "FPGA"}, {"key": "trait0", "value": "OWNER_CYBORG"}, {"key": "trait1", "value": "CUSTOM_FPGA_INTEL"}],
			"attach_handle_list": [
				{"attach_type": "PCI", "attach_info": {"domain": "0000", "bus": "0c", "device": "00", "function": "1"}},
				{"attach_type": "PCI", "attach_info": {"domain": "0000", "bus": "0c", "device": "00", "function": "2"}}]}]}]`, host)
	if err := json.Unmarshal(data, &devices); err != nil {
		panic(err) // the text is above
	}
	return devices
}

// reported is hosts.json of the launcher.
func reported() ([]byte, error) {
	hosts := make(map[string]any)
	for i := range acceleratorHosts {
		var list []any
		for _, device := range accelerators(acceleratorHost(i)) {
			data, err := json.Marshal(device)
			if err != nil {
				return nil, err
			}
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				return nil, err
			}
			for i, deployable := range fields["deployable_list"].([]any) {
				deployable.(map[string]any)["attribute_list"] = device.Deployables[i].AttributeList()
			}
			list = append(list, fields)
		}
		hosts[acceleratorHost(i)] = list
	}
	return json.Marshal(hosts)
}

// acceleratorCloud is a cloud with the hosts, and with their devices or without.
func acceleratorCloud(t *testing.T, cyborg fakecyborg.Config, devices bool) *simcloud.Cloud {
	t.Helper()
	cloud, err := simcloud.New(t.Context(), acceleratorModel(cyborg, devices))
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

// acceleratorModel is the model of this cloud.
func acceleratorModel(cyborg fakecyborg.Config, devices bool) simcloud.Model {
	model := simcloud.Model{TokenLifetime: 24 * time.Hour, Hosts: []simcloud.Host{}, DeviceProfiles: []simcloud.DeviceProfile{}, Flavors: []simcloud.Flavor{}, Cyborg: cyborg}
	for i := range acceleratorHosts {
		host := simcloud.Host{Name: acceleratorHost(i)}
		if devices {
			host.Devices = accelerators(host.Name)
		}
		model.Hosts = append(model.Hosts, host)
	}
	return model
}

// login gives a side the tokens of all users.
func login(t *testing.T, s *side, keystone *side) {
	t.Helper()
	for user, project := range cyborgRoles {
		body := asJSON(map[string]any{"auth": map[string]any{
			"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{"name": user, "password": simcloud.Password, "domain": map[string]any{"id": "default"}}}},
			"scope":    map[string]any{"project": map[string]any{"name": project, "domain": map[string]any{"id": "default"}}},
		}})
		got := keystone.send(t, request{method: "POST", target: "/v3/auth/tokens", body: body, header: [][2]string{{"Content-Type", "application/json"}}})
		if got.status != http.StatusCreated {
			t.Fatalf("token of %s: %d %s", user, got.status, got.body)
		}
		s.names[tokenOf(user)] = got.header.Get("X-Subject-Token")
	}
}

func tokenOf(user string) string { return "TOKEN-OF-" + strings.ToUpper(user) }

// realCyborg is a running Cyborg 17.
type realCyborg struct{ *side }

func startCyborg(t *testing.T) realCyborg {
	t.Helper()
	s, _ := startCyborgProcess(t)
	return s
}

// startCyborgProcess is startCyborg. It returns the process, too.
func startCyborgProcess(t *testing.T) (cyborg realCyborg, pid int) {
	t.Helper()
	around := acceleratorCloud(t, fakecyborg.Config{}, false)
	server := httptest.NewServer(around.Handler())
	t.Cleanup(func() {
		server.Close()
		_ = around.Close()
	})
	here, there := stateDirectory(t)
	hosts, err := reported()
	if err == nil {
		err = os.WriteFile(filepath.Join(here, "hosts.json"), hosts, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	url, pid := startRealProcess(t, "testdata/cyborg.py", there, server.URL+"/v3")
	s := newSide("the real Cyborg", url, realTransport())
	login(t, s, newSide("Keystone", server.URL, realTransport()))
	learnHardware(t, s)
	return realCyborg{s}, pid
}

// reset empties the real service.
func (s realCyborg) reset(t *testing.T) {
	t.Helper()
	for i := range acceleratorHosts * 3 { // what a world reserved in Placement
		s.send(t, request{method: "POST", target: fmt.Sprintf("%s/devices/%s/enable", cyborgPath, deviceLabel(i)), header: [][2]string{{"X-Auth-Token", tokenOf("admin")}}})
	}
	if got := s.send(t, request{method: "POST", target: "/reset-for-differential"}); got.status != http.StatusNoContent {
		t.Fatalf("reset the real Cyborg: %d %s", got.status, got.body)
	}
	for label := range s.names {
		if isMade(label) {
			delete(s.names, label)
		}
	}
}

// ours is a cloud in its first state.
func ours(t *testing.T, name string, config fakecyborg.Config) (*side, func()) {
	t.Helper()
	cloud := acceleratorCloud(t, config, true)
	s := newSide(name, cloud.URL(), cloud.Transport())
	login(t, s, s)
	learnHardware(t, s)
	return s, func() { _ = cloud.Close() }
}

// Labels of hardware have the form of what they name.
func deviceLabel(i int) string       { return fmt.Sprintf("dddddddd-0000-4000-8000-%012d", i) }
func deployableLabel(i int) string   { return fmt.Sprintf("eeeeeeee-0000-4000-8000-%012d", i) }
func providerLabel(i int) string     { return fmt.Sprintf("ffffffff-0000-4000-8000-%012d", i) }
func attributeLabel(i int) string    { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i) }
func deployableIDLabel(i int) string { return fmt.Sprintf("DEPLOYABLE-%d-LABEL", i) }

// madeLabel is the label of something that a request of the world created.
func madeLabel(i int) string   { return fmt.Sprintf("99999999-0000-4000-8000-%012d", i) }
func isMade(label string) bool { return strings.HasPrefix(label, "99999999-0000-") }

// learnHardware labels devices, deployables, providers and attributes, in an order that both sides have.
func learnHardware(t *testing.T, s *side) {
	t.Helper()
	list := func(path, key string, sortBy func(map[string]any) string) []map[string]any {
		got := s.send(t, request{method: "GET", target: cyborgPath + path, header: [][2]string{{"X-Auth-Token", tokenOf("admin")}, {"OpenStack-API-Version", "accelerator latest"}}})
		var body map[string][]map[string]any
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %s: %d %s", s.name, path, got.status, got.body)
		}
		items := body[key]
		slices.SortFunc(items, func(a, b map[string]any) int { return strings.Compare(sortBy(a), sortBy(b)) })
		return items
	}
	of := func(item map[string]any, keys ...string) string {
		var parts []string
		for _, key := range keys {
			parts = append(parts, fmt.Sprint(item[key]))
		}
		return strings.Join(parts, " ")
	}
	for i, item := range list("/devices", "devices", func(d map[string]any) string { return of(d, "hostname", "type", "model") }) {
		s.names[deviceLabel(i)] = of(item, "uuid")
	}
	for i, item := range list("/deployables", "deployables", func(d map[string]any) string { return of(d, "name") }) {
		s.names[deployableLabel(i)] = of(item, "uuid")
		s.names[providerLabel(i)] = of(item, "rp_uuid")
	}
	// An attribute names its deployable by number. Numbers ascend in the order of the reports, and a class is once on a host.
	class := make(map[float64]string)
	for _, item := range list("/attributes?key=rc", "attributes", func(a map[string]any) string { return of(a, "uuid") }) {
		class[item["deployable_id"].(float64)] = of(item, "value")
	}
	var numbers []float64
	for number := range class {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	rank := make(map[float64]string)
	for i, number := range numbers {
		rank[number] = fmt.Sprint(i/3, class[number])
	}
	slices.SortFunc(numbers, func(a, b float64) int { return strings.Compare(rank[a], rank[b]) })
	for i, number := range numbers {
		s.names[deployableIDLabel(i)] = fmt.Sprint(number)
	}
	for i, item := range list("/attributes", "attributes", func(a map[string]any) string { return rank[a["deployable_id"].(float64)] + of(a, "key") }) {
		s.names[attributeLabel(i)] = of(item, "uuid")
	}
}
