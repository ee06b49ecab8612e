package simcloud_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestParseModelNamesThePathOfErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"not JSON", `{`, "unexpected end of JSON input"},
		{"two values", `{} {}`, "after top-level value"},
		{"a list", `[]`, "the model: want an object"},
		{"null", `null`, "the model: want an object"},
		{"unknown field", `{"host":[]}`, "host: unknown field"},
		{"field in another case", `{"Hosts":[]}`, "Hosts: unknown field"},
		{"field twice", `{"seed":1,"seed":2}`, "seed: the field occurs twice"},
		{"negative seed", `{"seed":-1}`, "seed: want a whole number, not negative, got number -1"},
		{"hosts no list", `{"hosts":{}}`, "hosts: want a list"},
		{"nested unknown field", `{"hosts":[{"name":"a"},{"name":"b","sysfs":{"devices":[{"adress":"x"}]}}]}`, "hosts[1].sysfs.devices[0].adress: unknown field"},
		{"nested type", `{"hosts":[{"name":"a","vcpus":"many"}]}`, "hosts[0].vcpus: want a whole number, got string"},
		{"nested null", `{"hosts":[{"name":null}]}`, "hosts[0].name: null"},
		{"map value", `{"hosts":[{"name":"a","providers":[{"name":"p","inventory":{"VCPU":1.5}}]}]}`, "hosts[0].providers[0].inventory.VCPU: want a whole number"},
		{"device", `{"hosts":[{"name":"a","devices":[{"vendor":"10de","type":"GPU","controlpath_id":{"cpid_type":"PCI","cpid_info":7}}]}]}`, "hosts[0].devices[0].controlpath_id.cpid_info: "},
		{"driver", `{"hosts":[{"name":"a","sysfs":{},"drivers":{"nvidia":{"enabled_vgpu_type":[]}}}]}`, "hosts[0].drivers.nvidia.enabled_vgpu_type: unknown field"},
		{"unknown driver", `{"hosts":[{"name":"a","drivers":{"amd":{}}}]}`, "hosts[0].drivers.amd: unknown field"},
		{"cyborg", `{"cyborg":{"release":"bobcat"}}`, "cyborg: "},
		{"cyborg's field", `{"cyborg":{"releases":"zed"}}`, "cyborg: "},
		{"placement's field", `{"placement":{"seeds":1}}`, "placement.seeds: unknown field"},
		{"group value", `{"device_profiles":[{"name":"p","groups":[{"resources:PGPU":1}]}]}`, "device_profiles[0].groups[0].resources:PGPU: want text, got number"},
		{"no group", `{"device_profiles":[{"name":"p","groups":[]}]}`, "device_profiles[0].groups: a device profile needs a group"},
		{"profile twice", `{"device_profiles":[{"name":"p","groups":[{}]},{"name":"p","groups":[{}]}]}`, `device_profiles[1].name: "p" occurs twice`},
		{"flavor without name", `{"flavors":[{"vcpus":1}]}`, "flavors[0].name: the name is missing"},
		{"flavor negative", `{"flavors":[{"name":"f","ram":-1}]}`, "flavors[0].ram: -1 is negative"},
		{"host without name", `{"hosts":[{}]}`, "hosts[0].name: "},
		{"host twice", `{"hosts":[{"name":"a"},{"name":"a"}]}`, `hosts[1].name: the provider name "a" occurs at hosts[0].name, too`},
		{"host with a blank", `{"hosts":[{"name":"a b"}]}`, "hosts[0].name: "},
		{"negative amount", `{"hosts":[{"name":"a","disk":-4}]}`, "hosts[0].disk: -4 is negative"},
		{"bad trait", `{"hosts":[{"name":"a","traits":["no-trait"]}]}`, "hosts[0].traits[0]: "},
		{"bad class", `{"hosts":[{"name":"a","providers":[{"name":"p","inventory":{"GPU":1}}]}]}`, "hosts[0].providers[0].inventory.GPU: "},
		{"nothing in stock", `{"hosts":[{"name":"a","providers":[{"name":"p","inventory":{"VCPU":0}}]}]}`, "hosts[0].providers[0].inventory.VCPU: 0, want at least 1"},
		{"bad device", `{"hosts":[{"name":"a","devices":[{"vendor":"x","type":"TPU","controlpath_id":{"cpid_type":"PCI","cpid_info":{"a":"b"}}}]}]}`, "hosts[0].devices[0]: "},
		{"dir and devices", `{"hosts":[{"name":"a","sysfs":{"dir":"/sys","devices":[]}}]}`, "hosts[0].sysfs: dir and devices exclude each other"},
		{"dir and mdev parents", `{"hosts":[{"name":"a","sysfs":{"dir":"/sys","mdev_parents":[]}}]}`, "hosts[0].sysfs: dir and mdev_parents exclude each other"},
		{"write to nothing", `{"hosts":[{"name":"a","sysfs":{"write":true}}]}`, "hosts[0].sysfs.write: "},
		{"driver without hardware", `{"hosts":[{"name":"a","drivers":{"nvidia":{}}}]}`, "hosts[0].drivers: "},
		{"lifetime", `{"token_lifetime":"soon"}`, "token_lifetime: "},
		{"lifetime as a number", `{"token_lifetime":90}`, "token_lifetime: "},
		{"negative lifetime", `{"token_lifetime":"-1s"}`, "users: "},
		{"user without name", `{"users":[{}]}`, "users: "},
		{"role that is no list", `{"users":[{"name":"a","roles":{"lab":"member"}}]}`, "users[0].roles.lab: want a list"},
		{"Nova's address", `{"hosts":[{"name":"a","nova":{"vgpus":[{"address":"3b:00"}]}}]}`, "hosts[0].nova.vgpus[0].address: "},
		{"Nova's product", `{"hosts":[{"name":"a","nova":{"pci":[{"address":"0000:3b:00.0","vendor":"8086","product":"x"}]}}]}`, "hosts[0].nova.pci[0].product: "},
		{"Nova's card twice", `{"hosts":[{"name":"a","nova":{"vgpus":[{"address":"0000:3b:00.0"},{"address":"0000:3b:00.0"}]}}]}`, "hosts[0].nova.vgpus[1].address: "},
		{"Nova's whitelist", `{"hosts":[{"name":"a","nova":{"device_spec":[{"vendor_id":"xyz"}]}}]}`, "hosts[0].nova.device_spec: "},
		{"driver of another host", `{"hosts":[{"name":"a","sysfs":{},"drivers":{"nvidia":{"host":"b"}}}]}`, "hosts[0].drivers.nvidia.host: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := simcloud.ParseModel([]byte(tt.text))
			if !errors.Is(err, simcloud.ErrModel) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want ErrModel with %q", err, tt.want)
			}
		})
	}
}

func TestNewReportsErrorsOfTheServices(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"bad hardware", `{"hosts":[{"name":"a","sysfs":{"devices":[{"address":"x"}]}}]}`, "hosts[0].sysfs: "},
		{"no directory", `{"hosts":[{"name":"a","sysfs":{"dir":"/does/not/exist"}}]}`, "hosts[0].sysfs.dir: "},
		{"bad driver configuration", `{"hosts":[{"name":"a","sysfs":{},"drivers":{"nvidia":{"enabled_vgpu_types":[{"name":"nvidia-1","device_addresses":[]}]}}}]}`, "hosts[0].drivers.nvidia: "},
		{"vGPUs of a card that is not there", `{"hosts":[{"name":"a","sysfs":{},"drivers":{"nvidia":{"enabled_vgpu_types":[{"name":"nvidia-1","device_addresses":["0000:3b:00.0"]}]}}}]}`, "hosts[0]: "},
		{"unknown trait", `{"hosts":[{"name":"a","traits":["NO_SUCH_TRAIT"]}]}`, "NO_SUCH_TRAIT"},
		{"bad profile", `{"device_profiles":[{"name":"p","groups":[{"resources:PGPU":"many"}]}]}`, "device_profiles[0]: "},
		{"bad policy", `{"placement":{"policy":"strict"}}`, "placement: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := simcloud.ParseModel([]byte(tt.text))
			must(t, err)
			cloud, err := simcloud.New(t.Context(), m)
			if err == nil || cloud != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestModelsSurviveJSON(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]simcloud.Model{"zero": {}, "default": simcloud.DefaultModel(), "scale": simcloud.ScaleModel(2, 3)} {
		data, err := json.Marshal(m)
		must(t, err)
		got, err := simcloud.ParseModel(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Errorf("%s after a round trip (-want +got):\n%s", name, diff)
		}
	}
}

func TestEmptyListsStayEmpty(t *testing.T) {
	t.Parallel()
	m, err := simcloud.ParseModel([]byte(`{"hosts":[],"device_profiles":[],"flavors":[]}`))
	must(t, err)
	cloud := simcloud.Run(t, m)
	if len(cloud.HostNames())+len(cloud.Cyborg.DeviceProfiles())+len(cloud.Model().Flavors) != 0 {
		t.Errorf("hosts %v, profiles %v, flavors %v", cloud.HostNames(), cloud.Cyborg.DeviceProfiles(), cloud.Model().Flavors)
	}
}

func TestFlavorsConvertToRequestspec(t *testing.T) {
	t.Parallel()
	for _, f := range simcloud.DefaultModel().Flavors {
		if name, ok := requestspec.Flavor(f).DeviceProfile(); !ok || "accel."+name != f.Name {
			t.Errorf("flavor %s asks for %q", f.Name, name)
		}
	}
}

func FuzzModel(f *testing.F) {
	for _, m := range []simcloud.Model{{}, simcloud.DefaultModel(), simcloud.ScaleModel(1, 1)} {
		data, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"hosts":[{"name":"a","sysfs":{"dir":"/sys"},"drivers":{"pci":{"passthrough_whitelist":[{"vendor_id":"8086","address":"*:3b:*.*"}]}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := simcloud.ParseModel(data)
		if err != nil {
			if !errors.Is(err, simcloud.ErrModel) {
				t.Errorf("%q: error %v is not ErrModel", data, err)
			}
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		got, err := simcloud.ParseModel(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if third, err := json.Marshal(got); err != nil || string(third) != string(again) {
			t.Errorf("second writing differs: %s, then %s (%v)", again, third, err)
		}
	})
}
