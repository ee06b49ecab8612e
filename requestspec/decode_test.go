package requestspec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
)

func TestProfileFileIsAnObjectOrTheBodyOfAPost(t *testing.T) {
	const object = `{"name": "gpu-1", "description": "one GPU", "groups": [{"resources:PGPU": 1, "trait:CUSTOM_A": "required", "accel:x": "y"}]}`
	want := requestspec.Profile{Name: "gpu-1", Description: "one GPU",
		Groups: []map[string]string{{"resources:PGPU": "1", "trait:CUSTOM_A": "required", "accel:x": "y"}}}
	for _, file := range []string{object, "\n [" + object + "]\n"} {
		got, err := requestspec.ParseProfileFile([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("profile (-want +got):\n%s", diff)
		}
	}
}

func TestWrittenProfileReadsBack(t *testing.T) {
	want := requestspec.Profile{Name: "dp", Groups: twoGroups}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := requestspec.ParseProfileFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
}

func TestBadProfileFilesAreRefused(t *testing.T) {
	tests := []struct{ name, file, text string }{
		{"empty", ``, "unexpected end of JSON input"},
		{"garbled", "{\"name\": \"a\",\n\"groups\": [}", "line 2: invalid character"},
		{"two values", `{} {}`, "after top-level value"},
		{"null", `null`, "want a JSON object, got null"},
		{"string", `"gpu"`, `want a JSON object, got "gpu"`},
		{"empty list", `[]`, "the list has 0 device profiles"},
		{"two profiles", `[{}, {}]`, "the list has 2 device profiles"},
		{"unknown field", `{"name": "a", "groups": [], "uuid": "x"}`, `unknown field "uuid"`},
		{"field in other case", `{"Name": "a", "groups": []}`, `unknown field "Name"`},
		{"field twice", "{\"name\": \"a\",\n\"name\": \"b\"}", `line 2: key "name" occurs twice`},
		{"key twice", `{"name": "a", "groups": [{"resources:FPGA": "1", "resources:FPGA": "2"}]}`, `key "resources:FPGA" occurs twice`},
		{"no name", `{"groups": [{"resources:FPGA": "1"}]}`, `name ""`},
		{"name of another type", `{"name": 1, "groups": []}`, "field name: want a string, got number"},
		{"name with a blank", `{"name": "a b", "groups": [{"resources:FPGA": "1"}]}`, `name "a b"`},
		{"null name", `{"name": null}`, "field name is null"},
		{"no groups", `{"name": "a"}`, "field groups is missing"},
		{"empty groups", `{"name": "a", "groups": []}`, "no groups"},
		{"groups an object", `{"name": "a", "groups": {"resources:FPGA": "1"}}`, "field groups: want a list, got object"},
		{"group a string", `{"name": "a", "groups": ["x"]}`, `group 0: want an object, got "x"`},
		{"group null", `{"name": "a", "groups": [null]}`, "group 0: want an object, got null"},
		{"amount a boolean", `{"name": "a", "groups": [{"resources:FPGA": true}]}`, `group 0: key "resources:FPGA": value true`},
		{"amount null", `{"name": "a", "groups": [{"resources:FPGA": null}]}`, `group 0: key "resources:FPGA": value null`},
		{"amount a fraction", `{"name": "a", "groups": [{"resources:FPGA": 1.5}]}`, `group 0 key "resources:FPGA": amount "1.5"`},
		{"amount near overflow", `{"name": "a", "groups": [{"resources:FPGA": 9223372036854775807}]}`, "larger than 2147483647"},
		{"misspelt key", `{"name": "a", "groups": [{"resources:FPGA": "1", "triat:CUSTOM_A": "required"}]}`, `group 0 key "triat:CUSTOM_A"`},
		{"suffixed key", `{"name": "a", "groups": [{"resources1:FPGA": "1"}]}`, `group 0 key "resources1:FPGA"`},
		{"bad group", `{"name": "a", "groups": [{"trait:CUSTOM_A": "required"}]}`, `device profile "a" group 0: has traits but no resources`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := requestspec.ParseProfileFile([]byte(tt.file))
			if !errors.Is(err, requestspec.ErrInvalidProfile) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want one with %q", err, tt.text)
			}
			if diff := cmp.Diff(requestspec.Profile{}, p); diff != "" {
				t.Errorf("a profile beside the error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlavorFileReadsBack(t *testing.T) {
	want := requestspec.Flavor{Name: "gpu.small", VCPUs: 2, MemoryMB: 2048, RootGB: 20, EphemeralGB: 5, SwapMB: 1025,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu", "resources1:VGPU": "1"}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := requestspec.ParseFlavorFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flavor (-want +got):\n%s", diff)
	}
	if name, ok := got.DeviceProfile(); name != "gpu" || !ok {
		t.Errorf("DeviceProfile = %q, %t", name, ok)
	}
}

func TestBadFlavorFilesAreRefused(t *testing.T) {
	tests := []struct{ name, file, text string }{
		{"empty", ``, "unexpected end of JSON input"},
		{"list", `[]`, "want a JSON object, got []"},
		{"no name", `{"vcpus": 1}`, "field name is missing"},
		{"unknown field", `{"name": "a", "id": "x"}`, `unknown field "id"`},
		{"field twice", `{"name": "a", "ram": 1, "ram": 2}`, `key "ram" occurs twice`},
		{"wrong type", `{"name": "a", "vcpus": "2"}`, "field vcpus: want an integer, got string"},
		{"fraction", `{"name": "a", "ram": 0.5}`, "field ram: want an integer, got number 0.5"},
		{"overflow", `{"name": "a", "ram": 99999999999999999999}`, "field ram: want an integer"},
		{"negative", `{"name": "a", "disk": -1}`, "disk: -1 is not between 0"},
		{"null", `{"name": "a", "swap": null}`, "field swap is null"},
		{"extra specs a list", `{"name": "a", "extra_specs": ["b"]}`, `field extra_specs: want an object`},
		{"extra spec an object", `{"name": "a", "extra_specs": {"b": {}}}`, `field extra_specs: key "b": value {}`},
		{"long text is clipped", `"` + strings.Repeat("ä", 1000) + `"`, "..."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := requestspec.ParseFlavorFile([]byte(tt.file))
			if !errors.Is(err, requestspec.ErrInvalidFlavor) || !strings.Contains(err.Error(), tt.text) || len(err.Error()) > 200 {
				t.Errorf("error %v, want one with %q", err, tt.text)
			}
			if diff := cmp.Diff(requestspec.Flavor{}, f); diff != "" {
				t.Errorf("a flavor beside the error (-want +got):\n%s", diff)
			}
		})
	}
}
