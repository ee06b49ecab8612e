package matching_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
)

// mixed asks for three kinds of device in three groups; the last one is a Xilinx card, for which
// Cyborg makes two requests per unit.
var mixed = requestspec.Profile{Name: "mixed", Groups: []map[string]string{
	{"resources:PGPU": "2"},
	{"resources:VGPU": "1", "trait:CUSTOM_A": "required"},
	{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "required"},
}}

func mixedMappings() map[string][]string {
	return map[string][]string{
		"":                 {"root", "other"},
		"1":                {"rp-of-the-flavor"},
		"device_profile_0": {"rp-gpu"},
		"device_profile_1": {"rp-vgpu"},
		"device_profile_2": {"rp-fpga"},
	}
}

// arqs makes one request per index, named a, b, c...
func arqs(groups ...int) []matching.Unmatched {
	list := make([]matching.Unmatched, 0, len(groups))
	for i, g := range groups {
		list = append(list, matching.Unmatched{UUID: string(rune('a' + i)), Group: g, DeviceProfileName: "mixed"})
	}
	return list
}

func TestEveryARQGoesToTheProviderOfItsGroup(t *testing.T) {
	got, err := matching.Matches(mixed, mixedMappings(), arqs(2, 0, 1, 0, 2))
	if err != nil {
		t.Fatal(err)
	}
	want := []matching.Match{
		{ARQ: "a", DeviceRP: "rp-fpga", Group: 2}, {ARQ: "b", DeviceRP: "rp-gpu", Group: 0}, {ARQ: "c", DeviceRP: "rp-vgpu", Group: 1},
		{ARQ: "d", DeviceRP: "rp-gpu", Group: 0}, {ARQ: "e", DeviceRP: "rp-fpga", Group: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("matches (-want +got):\n%s", diff)
	}
}

func TestGroupsMayShareAProvider(t *testing.T) {
	m := mixedMappings()
	m["device_profile_1"] = m["device_profile_0"]
	got, err := matching.Matches(mixed, m, arqs(0, 0, 1, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	if got[0].DeviceRP != "rp-gpu" || got[2].DeviceRP != "rp-gpu" {
		t.Errorf("matches %v, want groups 0 and 1 on rp-gpu", got)
	}
}

func TestMatchesRefusesWhatDoesNotFit(t *testing.T) {
	all := []int{0, 0, 1, 2, 2}
	with := func(at int, change func(*matching.Unmatched)) []matching.Unmatched {
		list := arqs(all...)
		change(&list[at])
		return list
	}
	mapped := func(id string, rps ...string) map[string][]string {
		m := mixedMappings()
		m[id] = rps
		return m
	}
	tests := []struct {
		name     string
		mappings map[string][]string
		arqs     []matching.Unmatched
		want     matching.Error
	}{
		{"none at all", mixedMappings(), nil,
			matching.Error{RequesterID: "device_profile_0", Group: 0, Want: "2 ARQs", Got: "0", Err: matching.ErrCount}},
		{"one too few", mixedMappings(), arqs(0, 1, 2, 2),
			matching.Error{RequesterID: "device_profile_0", Group: 0, Want: "2 ARQs", Got: "1", Err: matching.ErrCount}},
		{"one too many", mixedMappings(), arqs(0, 0, 1, 1, 2, 2),
			matching.Error{RequesterID: "device_profile_1", Group: 1, Want: "1 ARQs", Got: "2", Err: matching.ErrCount}},
		{"right in sum, wrong in groups", mixedMappings(), arqs(0, 0, 0, 2, 2),
			matching.Error{RequesterID: "device_profile_0", Group: 0, Want: "2 ARQs", Got: "3", Err: matching.ErrCount}},
		{"xilinx not doubled", mixedMappings(), arqs(0, 0, 1, 2),
			matching.Error{RequesterID: "device_profile_2", Group: 2, Want: "2 ARQs", Got: "1", Err: matching.ErrCount}},
		{"index beyond the profile", mixedMappings(), arqs(0, 0, 1, 2, 2, 3),
			matching.Error{RequesterID: "device_profile_3", Group: 3, ARQ: "f", Want: "0 to 2", Got: "3", Err: matching.ErrGroupIndex}},
		{"negative index", mixedMappings(), arqs(0, -1, 1, 2, 2),
			matching.Error{RequesterID: "device_profile_-1", Group: -1, ARQ: "b", Want: "0 to 2", Got: "-1", Err: matching.ErrGroupIndex}},
		{"same ARQ twice", mixedMappings(), with(1, func(a *matching.Unmatched) { a.UUID = "a" }),
			matching.Error{Group: -1, ARQ: "a", Want: "each once", Got: "it twice", Err: matching.ErrARQ}},
		{"no UUID", mixedMappings(), with(4, func(a *matching.Unmatched) { a.UUID = "" }),
			matching.Error{Group: -1, Want: "a UUID", Got: "none at position 4", Err: matching.ErrARQ}},
		{"another profile", mixedMappings(), with(2, func(a *matching.Unmatched) { a.DeviceProfileName = "gpu" }),
			matching.Error{Group: -1, ARQ: "c", Want: `"mixed"`, Got: `"gpu"`, Err: matching.ErrProfile}},
		{"no profile", mixedMappings(), with(2, func(a *matching.Unmatched) { a.DeviceProfileName = "" }),
			matching.Error{Group: -1, ARQ: "c", Want: `"mixed"`, Got: `""`, Err: matching.ErrProfile}},
		{"no mappings", nil, arqs(all...),
			matching.Error{RequesterID: "device_profile_0", Group: 0, Want: "one provider", Got: "none", Err: matching.ErrNoMapping}},
		{"group not mapped", mapped("device_profile_1"), arqs(all...),
			matching.Error{RequesterID: "device_profile_1", Group: 1, Want: "one provider", Got: "none", Err: matching.ErrNoMapping}},
		{"mapped to nothing", mapped("device_profile_2", ""), arqs(all...),
			matching.Error{RequesterID: "device_profile_2", Group: 2, Want: "one provider", Got: "an empty UUID", Err: matching.ErrNoMapping}},
		{"mapped twice", mapped("device_profile_1", "x", "y"), arqs(all...),
			matching.Error{RequesterID: "device_profile_1", Group: 1, Want: "one provider", Got: "2: x, y", Err: matching.ErrAmbiguous}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			matches, err := matching.Matches(mixed, tt.mappings, tt.arqs)
			var got *matching.Error
			if !errors.As(err, &got) || matches != nil {
				t.Fatalf("matches %v, error %v", matches, err)
			}
			if !errors.Is(err, tt.want.Err) {
				t.Errorf("error %v, want %v", err, tt.want.Err)
			}
			sameErr := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })
			if diff := cmp.Diff(tt.want, *got, sameErr); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			for _, part := range []string{got.RequesterID, got.ARQ, got.Want, got.Got} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("text %q does not name %q", err, part)
				}
			}
		})
	}
}

func TestMatchesRefusesABadProfile(t *testing.T) {
	bad := requestspec.Profile{Name: "bad", Groups: []map[string]string{{"trait:CUSTOM_A": "required"}}}
	// The profile comes first: its errors explain errors about the requests.
	if _, err := matching.Matches(bad, mixedMappings(), []matching.Unmatched{{}}); !errors.Is(err, requestspec.ErrInvalidProfile) {
		t.Errorf("error %v, want %v", err, requestspec.ErrInvalidProfile)
	}
}

func TestProvidersReadsSuffixedGroupsOnly(t *testing.T) {
	groups := []requestspec.Group{
		{}, {RequesterID: "1", UseSameProvider: true}, {RequesterID: "device_profile_0", UseSameProvider: true},
	}
	got, err := matching.Providers(groups, mixedMappings())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"1": "rp-of-the-flavor", "device_profile_0": "rp-gpu"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	if got, err := matching.Providers(nil, nil); err != nil || len(got) != 0 {
		t.Errorf("Providers of nothing = %v, %v", got, err)
	}
}

func TestProvidersRefusesARequesterIDUsedTwice(t *testing.T) {
	group := requestspec.Group{RequesterID: "1", UseSameProvider: true}
	_, err := matching.Providers([]requestspec.Group{group, group}, mixedMappings())
	want := matching.Error{RequesterID: "1", Group: 1, Want: "one group of this requester id", Got: "a second", Err: matching.ErrAmbiguous}
	if got := (*matching.Error)(nil); !errors.As(err, &got) || *got != want {
		t.Errorf("error %v, want %v", err, &want)
	}
}
