package requestspec_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Placement stores amounts in 32 bits and names in 255 characters.
func TestAmountsReachPlacementsLimit(t *testing.T) {
	with := func(amount int) requestspec.Options {
		return requestspec.Options{Groups: []requestspec.Group{{RequesterID: "port", Resources: map[string]int{"VGPU": amount}}}}
	}
	if got := build(t, flavor(), nil, with(math.MaxInt32)).Values().Get("resourcesport"); got != "VGPU:2147483647" {
		t.Errorf("the largest amount is requested as %q", got)
	}
	for _, amount := range []int{-1, math.MaxInt32 + 1} {
		if _, err := requestspec.New(flavor(), nil, with(amount)); !errors.Is(err, requestspec.ErrInvalidGroup) {
			t.Errorf("amount %d: %v", amount, err)
		}
	}
	if got := build(t, requestspec.Flavor{VCPUs: math.MaxInt32}, nil, requestspec.Options{}).Values().Get("resources"); got != "VCPU:2147483647" {
		t.Errorf("the largest flavor is requested as %q", got)
	}
	if _, err := requestspec.New(requestspec.Flavor{VCPUs: math.MaxInt32 + 1}, nil, requestspec.Options{}); !errors.Is(err, requestspec.ErrInvalidFlavor) {
		t.Errorf("a larger flavor: %v", err)
	}
	// The disk is a sum.
	if got := build(t, requestspec.Flavor{RootGB: math.MaxInt32 - 1, EphemeralGB: 1}, nil, requestspec.Options{}).Values().Get("resources"); got != "DISK_GB:2147483647" {
		t.Errorf("the largest disk is requested as %q", got)
	}
	if _, err := requestspec.New(requestspec.Flavor{RootGB: math.MaxInt32, EphemeralGB: 1}, nil, requestspec.Options{}); !errors.Is(err, requestspec.ErrInvalidFlavor) {
		t.Errorf("a larger disk: %v", err)
	}
}

func TestNamesReachPlacementsLimit(t *testing.T) {
	long := "CUSTOM_" + strings.Repeat("L", 248)
	for _, tt := range []struct {
		what, name string
		extra      map[string]string
	}{
		{"class", "dp", map[string]string{"resources:" + long: "1"}},
		{"trait", "dp", map[string]string{"resources:FPGA": "1", "trait:" + long: "required"}},
		{"profile", strings.Repeat("n", 255), map[string]string{"resources:FPGA": "1"}},
	} {
		p := requestspec.Profile{Name: tt.name, Groups: []map[string]string{tt.extra}}
		if list := requestspec.Lint(nil, &p); len(list) > 0 {
			t.Errorf("%s of 255 characters: %v", tt.what, list)
		}
		p.Name = strings.ReplaceAll(p.Name, "nn", "nnn")
		longer := map[string]string{}
		for key, value := range tt.extra {
			longer[strings.ReplaceAll(key, "LL", "LLL")] = value
		}
		p.Groups[0] = longer
		if list := requestspec.Lint(nil, &p); !hasErrors(list) {
			t.Errorf("a longer %s: %v", tt.what, list)
		}
	}
}

func TestLongKeysAreClippedInMessages(t *testing.T) {
	key := "accel:" + strings.Repeat("k", 54)
	_, whole := requestspec.ReadProfile([]byte(`{"name": "a", "groups": [{"` + key + `": []}]}`))
	if whole == nil || !strings.Contains(whole.Error(), `"`+key+`"`) {
		t.Errorf("a key of 60 characters: %v", whole)
	}
	_, clipped := requestspec.ReadProfile([]byte(`{"name": "a", "groups": [{"` + key + `k": []}]}`))
	if clipped == nil || !strings.Contains(clipped.Error(), `"`+key+`..."`) {
		t.Errorf("a key of 61 characters: %v", clipped)
	}
}

// A port gets one device; memory of the device and the second request of a Xilinx card
// count as more.
func TestAPortGetsOneDevice(t *testing.T) {
	port := requestspec.Port{UUID: portUUID, VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: "dp"}
	xilinx := map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "required"}
	for want, groups := range map[string][]map[string]string{
		"It requests 2":    {xilinx},
		"It requests 3":    {xilinx, {"resources:PGPU": "1"}},
		"It requests 4097": {{"resources:PGPU": "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}},
	} {
		if _, err := requestspec.PortGroups(port, profile(groups), 0); !errors.Is(err, requestspec.ErrInvalidPort) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", groups, err, want)
		}
	}
	groups := []map[string]string{{"resources:PGPU": "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "1"}}
	if _, err := requestspec.PortGroups(port, profile(groups), 0); !errors.Is(err, requestspec.ErrInvalidPort) {
		t.Errorf("%v: %v", groups, err)
	}
}

func TestGroupsReachTheLimits(t *testing.T) {
	for _, groups := range [][]map[string]string{
		{{"resources:FPGA": "2147483647"}},
		{{"resources:FPGA": "1"}, {"resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}}, // the memory of no device
	} {
		if _, err := requestspec.ParseProfile("dp", groups); err != nil {
			t.Errorf("%v: %v", groups, err)
		}
	}
	for want, group := range map[string]map[string]string{
		"requests 4294967294 accelerators": {"resources:FPGA": "2147483647", "trait:CUSTOM_FPGA_XILINX": "required"},
		"has traits but no resources key":  {"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden"},
		"requests memory but no device":    {"resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"},
		"is empty: no resources key":       {},
	} {
		if _, err := requestspec.ParseProfile("dp", []map[string]string{group}); !errors.Is(err, requestspec.ErrInvalidProfile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", group, err, want)
		}
	}
}
