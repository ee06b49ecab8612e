package sysfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	gpu = "0001:c8:00.0"
	vf1 = "0001:c8:00.2"
	vf2 = "0001:c8:00.3"
	vf3 = "0001:c8:00.4"
)

// blackwell is the card of the vendor framework's listings, with fewer virtual functions.
func blackwell() sysfs.Description {
	return sysfs.Description{Devices: []sysfs.PCIDevice{{
		Address: gpu, Vendor: "10de", Product: "2bb5", Class: "0302", Driver: "nvidia", IOMMUGroup: ptr(5),
		VFs: &sysfs.VFs{Total: 6, Enabled: 6, Offset: 2, Driver: "nvidia", VGPUs: &sysfs.VGPUCard{Types: []sysfs.VGPUType{
			{ID: 1553, Name: "NVIDIA RTX Pro 6000 Blackwell DC-24Q", FramebufferMiB: 24576, MaxInstances: 4},
			{ID: 1555, Name: "NVIDIA RTX Pro 6000 Blackwell DC-48Q", FramebufferMiB: 49152, MaxInstances: 2},
			{ID: 1556, Name: "NVIDIA RTX Pro 6000 Blackwell DC-48C", FramebufferMiB: 49152, MaxInstances: 2},
		}}},
	}}}
}

func currentType(vf string) string { return "bus/pci/devices/" + vf + "/nvidia/current_vgpu_type" }

func creatable(t testing.TB, tree driver.Tree, vf string) []int {
	t.Helper()
	at, err := driver.ParsePCIAddress(vf)
	if err != nil {
		t.Fatal(err)
	}
	types, err := driver.CreatableVGPUs(driver.NewView(tree), at)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int{}
	for _, typ := range types {
		ids = append(ids, typ.ID)
	}
	return ids
}

func TestAVirtualFunctionShowsTheTypesOfVGPUs(t *testing.T) {
	t.Parallel()
	m := generate(t, blackwell())
	const first = "bus/pci/devices/" + gpu + "/virtfn0/nvidia/"
	wantFiles(t, m, map[string]string{
		first + "creatable_vgpu_types": "ID    : vGPU Name\n1553  : NVIDIA RTX Pro 6000 Blackwell DC-24Q\n1555  : NVIDIA RTX Pro 6000 Blackwell DC-48Q\n1556  : NVIDIA RTX Pro 6000 Blackwell DC-48C",
		first + "current_vgpu_type":    "0",
		first + "vgpu_params":          "",
	})
	place := "bus/pci/devices/" + vf1 + "/nvidia/placement_id"
	if _, err := m.ReadFile(place); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("placement_id without a vGPU: %v, want ENXIO", err)
	}
	write(t, m, currentType(vf1), "1553\n")
	if got := read(t, m, place); got != "0\n" {
		t.Errorf("placement_id = %q", got)
	}
	if _, err := m.ReadDir("bus/pci/devices/" + gpu + "/nvidia"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the physical function: %v", err)
	}
}

func TestTypesOfVGPUsAreAcceptedLikeTheKernelDoes(t *testing.T) {
	t.Parallel()
	type step struct {
		vf, text string
		want     error
	}
	mig := &sysfs.VGPUCard{MIG: true, Types: []sysfs.VGPUType{
		{ID: 1553, Name: "NVIDIA DC-24Q", FramebufferMiB: 24576, MaxInstances: 4},
		{ID: 1561, Name: "NVIDIA DC-1-24Q", FramebufferMiB: 24576, MaxInstances: 1, Slices: 1},
		{ID: 1570, Name: "NVIDIA DC-1-12Q", FramebufferMiB: 12288, MaxInstances: 2, Slices: 1},
	}}
	withInstances := *mig
	withInstances.GPUInstances = []int{1, 2, 1}
	mixed := *blackwell().Devices[0].VFs.VGPUs
	mixed.Mixed = true
	for _, tt := range []struct {
		name  string
		card  *sysfs.VGPUCard // nil: that of blackwell
		steps []step
		left  []int // creatable
	}{
		{"other sizes are not available", nil, []step{{vf1, "1555", nil}, {vf2, "1553", syscall.EINVAL}, {vf2, "1556", nil}}, []int{}},
		{"a full card", nil, []step{{vf1, "1555", nil}, {vf2, "1555", nil}, {vf3, "1555", syscall.ENOSPC}}, []int{}},
		{"the list shrinks", nil, []step{{vf1, "1553", nil}}, []int{1553}},
		{"a type is cleared before another", nil, []step{{vf1, "1553", nil}, {vf1, "1555", syscall.EPERM}, {vf1, "1553", syscall.EPERM}, {vf1, "0", nil}, {vf1, "1555", nil}}, []int{1555, 1556}},
		{"nothing to clear", nil, []step{{vf1, "0", syscall.EPERM}}, []int{1553, 1555, 1556}},
		{"no number", nil, []step{{vf1, "x", syscall.EINVAL}, {vf1, "-1", syscall.EINVAL}, {vf1, "", syscall.EINVAL}}, []int{1553, 1555, 1556}},
		{"an unknown id", nil, []step{{vf1, "7", syscall.ENODEV}}, []int{1553, 1555, 1556}},
		{"sizes side by side", &mixed, []step{{vf1, "1555", nil}, {vf2, "1553", nil}, {vf3, "1553", nil}}, []int{}},
		{"MIG without an instance", mig, []step{{vf1, "1561", syscall.EIO}, {vf1, "1553", syscall.EIO}}, []int{}},
		{"MIG", &withInstances, []step{{vf1, "1553", syscall.EINVAL}, {vf1, "1561", nil}, {vf2, "1570", nil}, {vf3, "1561", syscall.EINVAL}}, []int{1570}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := blackwell()
			if tt.card != nil {
				d.Devices[0].VFs.VGPUs = tt.card
			}
			m := generate(t, d)
			for _, s := range tt.steps {
				if err := m.WriteFile(currentType(s.vf), []byte(s.text)); !errors.Is(err, s.want) {
					t.Errorf("%s <- %q: %v, want %v", s.vf, s.text, err, s.want)
				}
			}
			if diff := cmp.Diff(tt.left, creatable(t, m, "0001:c8:00.7")); diff != "" {
				t.Errorf("creatable (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAVGPUThatAGuestHasIsNotCleared(t *testing.T) {
	t.Parallel()
	m := generate(t, blackwell())
	write(t, m, currentType(vf1), "1553")
	at, err := driver.ParsePCIAddress(vf1)
	if err != nil {
		t.Fatal(err)
	}
	hold := func(held bool) {
		if err := m.HoldVGPU(at, held); err != nil {
			t.Fatal(err)
		}
	}
	hold(true)
	if err := m.WriteFile(currentType(vf1), []byte("0")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("while it is held: %v, want EBUSY", err)
	}
	hold(false)
	write(t, m, currentType(vf1), "0")
	if err := m.HoldVGPU(driver.PCIAddress{}, true); err == nil {
		t.Error("a function that is not there was held")
	}
}

func TestARestartRemovesVGPUs(t *testing.T) {
	t.Parallel()
	m := generate(t, blackwell())
	write(t, m, currentType(vf1), "1553")
	before, err := sysfs.VGPUs(m)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := driver.ParsePCIAddress(vf1)
	if diff := cmp.Diff(map[driver.PCIAddress]int{at: 1553}, before); diff != "" {
		t.Errorf("VGPUs (-want +got):\n%s", diff)
	}
	m.Reboot()
	if after, err := sysfs.VGPUs(m); err != nil || len(after) > 0 {
		t.Errorf("after a restart: %v, %v", after, err)
	}
}

func TestADescriptionOfVGPUsIsChecked(t *testing.T) {
	t.Parallel()
	one := sysfs.VGPUType{ID: 1, Name: "A", FramebufferMiB: 1, MaxInstances: 1}
	for name, card := range map[string]sysfs.VGPUCard{
		"no types":                       {},
		"id 0":                           {Types: []sysfs.VGPUType{{Name: "A", FramebufferMiB: 1, MaxInstances: 1}}},
		"an id twice":                    {Types: []sysfs.VGPUType{one, one}},
		"a name with a colon":            {Types: []sysfs.VGPUType{{ID: 1, Name: "A:B", FramebufferMiB: 1, MaxInstances: 1}}},
		"no size":                        {Types: []sysfs.VGPUType{{ID: 1, Name: "A", MaxInstances: 1}}},
		"GPU instances without MIG":      {Types: []sysfs.VGPUType{one}, GPUInstances: []int{1}},
		"a GPU instance without a slice": {Types: []sysfs.VGPUType{one}, MIG: true, GPUInstances: []int{0}},
	} {
		d := blackwell()
		d.Devices[0].VFs.VGPUs = &card
		if _, err := sysfs.Generate(d); !errors.Is(err, sysfs.ErrDescription) {
			t.Errorf("%s: %v, want ErrDescription", name, err)
		}
	}
}

// TestTheOverlayKeepsTypesOfVGPUs compares an overlay with its dump, loaded into another.
func TestTheOverlayKeepsTypesOfVGPUs(t *testing.T) {
	t.Parallel()
	m := generate(t, blackwell())
	write(t, m, currentType(vf3), "1553")
	dir := layOut(t, m)
	rapid.Check(t, func(rt *rapid.T) {
		tree, other := open(t, dir, sysfs.DirOptions{}), open(t, dir, sysfs.DirOptions{})
		for range rapid.IntRange(0, 8).Draw(rt, "writes") {
			vf := rapid.SampledFrom([]string{vf1, vf2, vf3}).Draw(rt, "function")
			text := rapid.SampledFrom([]string{"0", "1553", "1555", "x"}).Draw(rt, "text")
			before := read(t, tree, currentType(vf))
			err := tree.WriteFile(currentType(vf), []byte(text))
			after := read(t, tree, currentType(vf))
			if err == nil && after != text+"\n" || err != nil && after != before {
				rt.Fatalf("%s <- %q: %v, then %q", vf, text, err, after)
			}
		}
		reload(rt, tree, other)
		for _, vf := range []string{vf1, vf2, vf3} {
			if a, b := read(t, tree, currentType(vf)), read(t, other, currentType(vf)); a != b {
				rt.Fatalf("%s: %q, loaded %q", vf, a, b)
			}
		}
	})
}

func TestADumpOfVGPUsThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	dump := func(address string, id int) string {
		return fmt.Sprintf(`{"schema_version": 1, "vgpus": [{"address": %q, "type": %d}]}`, address, id)
	}
	wantRefused(t, generate(t, blackwell()), []badDump{
		{"the physical function", dump(gpu, 1553), "not a virtual function with vGPUs"},
		{"an unknown type", dump(vf1, 9), "no such type"},
		{"no address", dump("x", 1553), "not a virtual function with vGPUs"},
		{"GPU instance", `{"schema_version": 1, "vgpus": [{"address": "` + vf1 + `", "type": 1553, "gpu_instance": 1}]}`, "no GPU instance 1"},
		{"twice", `{"schema_version": 1, "vgpus": [{"address": "` + vf1 + `", "type": 1553}, {"address": "` + vf1 + `", "type": 1553}]}`, "appears twice"},
		{"two sizes", `{"schema_version": 1, "vgpus": [{"address": "` + vf1 + `", "type": 1553}, {"address": "` + vf2 + `", "type": 1555}]}`, "invalid argument"},
	})
}
