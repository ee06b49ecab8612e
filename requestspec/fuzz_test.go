package requestspec_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
)

// checkQuery asserts what holds for the query of every request that New makes.
func checkQuery(t *testing.T, spec requestspec.RequestSpec) url.Values {
	t.Helper()
	query := spec.Query()
	if again := spec.Query(); again != query {
		t.Fatalf("two queries of one request:\n%s\n%s", query, again)
	}
	values, err := url.ParseQuery(query)
	if err != nil || values.Encode() != query {
		t.Fatalf("query %q does not survive parsing: %v", query, err)
	}
	for i, g := range spec.Groups {
		if (g.RequesterID == "") != !g.UseSameProvider || g.RequesterID == "" && i > 0 {
			t.Fatalf("group %d of the request: %+v", i, g)
		}
		if !values.Has("resources" + g.RequesterID) {
			t.Fatalf("group %q is not in the query %s", g.RequesterID, query)
		}
		for class, amount := range g.Resources {
			if amount < 1 || amount > 1<<31-1 {
				t.Fatalf("group %q asks for %d of %s", g.RequesterID, amount, class)
			}
		}
	}
	if policy := spec.GroupPolicy; policy != "" && policy != "none" && policy != "isolate" {
		t.Fatalf("group policy %q", policy)
	}
	return values
}

// checkValues asserts that a warning of an entry names its value.
func checkValues(t *testing.T, warnings []requestspec.Warning, entries ...map[string]string) {
	t.Helper()
	for _, w := range warnings {
		if !strings.Contains(w.Key, ":") { // a query parameter, for the whole group
			continue
		}
		there, named := false, false
		for _, m := range entries {
			value, ok := m[w.Key]
			there, named = there || ok, named || ok && value == w.Value
		}
		if there && !named {
			t.Fatalf("warning %+v has another value than any of %v", w, entries)
		}
	}
}

// answeredGroups are the groups of device profiles that a real Cyborg answered.
func answeredGroups(f *testing.F) (list []json.RawMessage) {
	f.Helper()
	data, err := os.ReadFile("../cyborgclient/testdata/answers/profile_list.json")
	if err != nil {
		f.Fatal(err)
	}
	var answer struct {
		Profiles []struct{ Groups json.RawMessage } `json:"device_profiles"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || len(answer.Profiles) == 0 {
		f.Fatalf("%d profiles, %v", len(answer.Profiles), err)
	}
	for _, p := range answer.Profiles {
		list = append(list, p.Groups)
	}
	return list
}

// FuzzDeviceProfileGroups feeds groups as the JSON that Cyborg answers with.
func FuzzDeviceProfileGroups(f *testing.F) {
	for _, seed := range [][]map[string]string{nil, oneFPGA, twoGroups, {{}}, {nil}, {{"resources7:FPGA": " +1 "}, {"trait:": ""}},
		{{"resources:FPGA": "9223372036854775807"}}, {{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "required"}}} {
		data, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, groups := range answeredGroups(f) {
		f.Add([]byte(groups))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var groups []map[string]string
		if json.Unmarshal(data, &groups) != nil {
			return
		}
		parsed, err := requestspec.ParseProfile("dp", groups)
		spec, newErr := requestspec.New(flavor(requestspec.DeviceProfileKey, "dp"), profile(groups), requestspec.Options{})
		if err != nil {
			if !errors.Is(err, requestspec.ErrInvalidProfile) || newErr == nil || newErr.Error() != err.Error() {
				t.Fatalf("ParseProfile: %v, New: %v", err, newErr)
			}
			return
		}
		if newErr != nil || len(parsed) != len(groups) || len(spec.DeviceGroups()) != len(groups) {
			t.Fatalf("New: %v, %d and %d groups of %d", newErr, len(parsed), len(spec.DeviceGroups()), len(groups))
		}
		values := checkQuery(t, spec)
		for i, group := range groups {
			if count, err := requestspec.ARQCount(group); err != nil || count < 1 {
				t.Fatalf("group %d: ARQCount = %d, %v", i, count, err)
			}
			if values.Get("resources"+requestspec.RequesterID(i)) == "" {
				t.Fatalf("group %d asks for nothing: %v", i, values)
			}
		}
	})
}

// FuzzExtraSpecs feeds extra specs as lines of key=value.
func FuzzExtraSpecs(f *testing.F) {
	f.Add("resources:VGPU=1\ntrait:HW_CPU_X86_AVX=required")
	f.Add("resources1:CUSTOM_B=2\nresources2:VGPU=0\ngroup_policy=isolate")
	f.Add("traits:A=required\ntrait:=forbidden\nresources: =\nresource:X=1")
	f.Add("resources:VCPU=99999999999999999999")
	f.Add("resourcesdevice_profile_0:FPGA=x\naccel:device_profile=dp")
	f.Fuzz(func(t *testing.T, text string) {
		fl := flavor()
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			fl.ExtraSpecs[key] = value
		}
		var p *requestspec.Profile
		if name, ok := fl.DeviceProfile(); ok {
			p = &requestspec.Profile{Name: name, Groups: twoGroups}
		}
		spec, err := requestspec.New(fl, p, requestspec.Options{})
		if err != nil {
			if !errors.Is(err, requestspec.ErrInvalidFlavor) && !errors.Is(err, requestspec.ErrDuplicateSuffix) {
				t.Fatalf("error of no known kind: %v", err)
			}
			return
		}
		checkValues(t, spec.Warnings, fl.ExtraSpecs)
		if numeric, err := requestspec.New(fl, p, requestspec.Options{NumericSuffixes: true}); err == nil {
			checkValues(t, numeric.Warnings, fl.ExtraSpecs)
			for _, g := range numeric.Groups {
				if n, err := strconv.Atoi(g.Suffix + g.RequesterID); g.UseSameProvider && g.Suffix == "" && (err != nil || n < 1) {
					t.Fatalf("a numeric request with group %+v", g)
				}
			}
		}
		values := checkQuery(t, spec)
		if accelerators := strings.Contains(values.Get("root_required"), "COMPUTE_ACCELERATORS"); accelerators != (p != nil) {
			t.Fatalf("root_required %q with profile %v", values.Get("root_required"), p)
		}
		for _, w := range spec.Warnings {
			if w.Key == "" || w.Message == "" {
				t.Fatalf("warning that says nothing: %+v", w)
			}
		}
	})
}

// FuzzProfileFile checks that each accepted file can be requested and round-trips.
func FuzzProfileFile(f *testing.F) {
	f.Add([]byte(`{"name": "a", "groups": [{"resources:FPGA": 1}]}`))
	f.Add([]byte(`[{"name": "a", "description": "b", "groups": [{"resources:FPGA": "1", "accel:x": ""}]}]`))
	f.Add([]byte(`{"name": "a", "name": "b"}`))
	f.Add([]byte(`[[{"a": [{"a": 1}]}]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := requestspec.ParseProfileFile(data)
		if err != nil {
			if !errors.Is(err, requestspec.ErrInvalidProfile) {
				t.Fatalf("error of no known kind: %v", err)
			}
			return
		}
		spec, err := requestspec.New(flavor(requestspec.DeviceProfileKey, p.Name), &p, requestspec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkQuery(t, spec)
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := requestspec.ParseProfileFile(written); err != nil {
			t.Fatalf("%s does not read back: %v", written, err)
		}
	})
}
