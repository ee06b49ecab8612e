package nvidia_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const blackwell = "0001:c8:00.0"

// blackwellCard has twelve virtual functions, from function 2 on.
func blackwellCard(change ...func(*sysfs.VFs)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: blackwell, Vendor: "10de", Product: "2bb5", Class: "0302", Driver: "nvidia",
		VFs: &sysfs.VFs{Total: 12, Enabled: 12, Offset: 2, Driver: "nvidia", VGPUs: &sysfs.VGPUCard{Types: []sysfs.VGPUType{
			{ID: 1553, Name: "NVIDIA RTX Pro 6000 Blackwell DC-24Q", FramebufferMiB: 24576, MaxInstances: 4},
			{ID: 1555, Name: "NVIDIA RTX Pro 6000 Blackwell DC-48Q", FramebufferMiB: 49152, MaxInstances: 2},
		}}}}
	for _, c := range change {
		c(d.VFs)
	}
	return d
}

func vgpuType(id, instances int, name string) nvidia.VGPUType {
	return nvidia.VGPUType{Name: fmt.Sprint("nvidia-", id), DeviceAddresses: []string{blackwell}, MaxInstances: instances, VGPUName: "NVIDIA RTX Pro 6000 Blackwell " + name}
}

var q24, q48 = vgpuType(1553, 4, "DC-24Q"), vgpuType(1555, 2, "DC-48Q")

func vgpus(types ...nvidia.VGPUType) nvidia.Config { return nvidia.Config{EnabledVGPUTypes: types} }

func vgpuTree(t testing.TB, change ...func(*sysfs.VFs)) *sysfs.Memory {
	t.Helper()
	return drivertest.Tree(t, blackwellCard(change...))
}

func function(n uint8) driver.PCIAddress {
	return driver.PCIAddress{Domain: 1, Bus: 0xc8, Device: n >> 3, Function: n & 7}
}

// handles are those of virtual functions of a type.
func handles(typ string, first, n uint8) (list []driver.AttachHandle) {
	for i := range n {
		f := function(first + i)
		list = append(list, driver.AttachHandle{Type: "PCI", Info: driver.Info{
			"domain": "0001", "bus": "c8", "device": fmt.Sprintf("%02x", f.Device), "function": fmt.Sprint(f.Function), "managed": "false", "asked_type": typ,
		}})
	}
	return list
}

func TestACardOffersItsVirtualFunctionsAsVGPUs(t *testing.T) {
	t.Parallel()
	trait := "CUSTOM_NVIDIA_2BB5_RTX_PRO_6000_BLACKWELL_"
	report := discover(t, vgpus(q24, q48), vgpuTree(t))
	want := []driver.Device{{
		Vendor: "10de", Model: "NVIDIA Corporation GB202GL [RTX PRO 6000 Blackwell Server Edition]", Type: "GPU",
		StdBoardInfo:    `{"product_id": "2bb5", "controller": "3D controller"}`,
		VendorBoardInfo: `{"vendor_info": "gpu_vb_info"}`,
		ControlPath:     driver.ControlPath{Type: "PCI", Info: driver.Info{"domain": "0001", "bus": "c8", "device": "00", "function": "0"}},
		Deployables: []driver.Deployable{
			{Name: "compute1_0001:c8:00.0_nvidia-1553", NumAccelerators: 4, DriverName: "NVIDIA", Class: "VGPU",
				Traits: []string{"OWNER_CYBORG", trait + "DC_24Q"}, AttachHandles: handles("nvidia-1553", 2, 4)},
			{Name: "compute1_0001:c8:00.0_nvidia-1555", NumAccelerators: 2, DriverName: "NVIDIA", Class: "VGPU",
				Traits: []string{"OWNER_CYBORG", trait + "DC_48Q"}, AttachHandles: handles("nvidia-1555", 6, 2)},
		},
	}}
	if diff := cmp.Diff(want, report.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if len(report.LeftOut) != 6 || len(report.Problems) > 0 || !strings.Contains(report.LeftOut[0].Reason, "max_instances") {
		t.Errorf("left out %v, problems %v", report.LeftOut, report.Problems)
	}
}

func TestNoMoreVGPUsAreOfferedThanThereAreFunctions(t *testing.T) {
	t.Parallel()
	report := discover(t, vgpus(q24), vgpuTree(t, func(v *sysfs.VFs) { v.Enabled = 3 }))
	if got := report.Devices[0].Deployables[0].NumAccelerators; got != 3 {
		t.Errorf("%d vGPUs on three functions", got)
	}
}

func TestTheTotalStaysWhileVGPUsAreInUse(t *testing.T) {
	t.Parallel()
	tree := vgpuTree(t)
	d := newDriver(t, vgpus(q48), tree)
	for n := range uint8(2) {
		if err := d.SetVGPU(t.Context(), driver.VGPU{Function: function(2 + n), Type: 1555}, false); err != nil {
			t.Fatal(err)
		}
		report := discover(t, vgpus(q48), tree) // at last the card is full and lists no type
		want := handles("nvidia-1555", 2, 2)
		for i := range n + 1 {
			want[i].InUse = true
		}
		if diff := cmp.Diff(want, report.Devices[0].Deployables[0].AttachHandles); diff != "" {
			t.Errorf("with %d in use (-want +got):\n%s", n+1, diff)
		}
	}
}

func TestATypeForWhichThereIsNoRoomIsNotOffered(t *testing.T) {
	t.Parallel()
	tree := vgpuTree(t)
	if err := tree.WriteFile(driver.VGPUFile(function(7)), []byte("1555")); err != nil { // an operator
		t.Fatal(err)
	}
	report := discover(t, vgpus(q24), tree)
	if len(report.Devices) > 0 || len(report.LeftOut) < 4 || !strings.Contains(report.LeftOut[0].Reason, "no room for vGPU type nvidia-1553") {
		t.Errorf("devices %v, left out %v", report.Devices, report.LeftOut)
	}
}

func TestACardThatIsNotReadyIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sysfs.VFs){
		"without virtual functions":     func(v *sysfs.VFs) { v.Enabled = 0 },
		"in MIG mode without instances": func(v *sysfs.VFs) { v.VGPUs.MIG = true },
	} {
		report := discover(t, vgpus(q24), vgpuTree(t, change))
		if len(report.Devices) > 0 || len(report.Problems) != 1 || report.Problems[0].Address != blackwell || !strings.Contains(report.Problems[0].Error(), "waiting for") {
			t.Errorf("%s: devices %v, problems %v", name, report.Devices, report.Problems)
		}
	}
}

func TestACardWithoutConfiguredTypesIsSkipped(t *testing.T) {
	t.Parallel()
	report := discover(t, nvidia.Config{}, vgpuTree(t))
	if len(report.Devices) > 0 || len(report.LeftOut) != 13 {
		t.Errorf("devices %v, left out %v", report.Devices, report.LeftOut)
	}
}

// TestATypeOfMediatedDevicesOnACardWithoutThem: an operator brought the configuration from an older card or kernel.
func TestATypeOfMediatedDevicesOnACardWithoutThem(t *testing.T) {
	t.Parallel()
	for _, at := range []string{blackwell, function(2).String()} {
		report := discover(t, vgpus(nvidia.VGPUType{Name: "nvidia-1553", DeviceAddresses: []string{at}}), vgpuTree(t))
		if len(report.Devices) > 0 || len(report.Problems) != 1 || report.Problems[0].Address != at || !errors.Is(report.Problems[0], driver.ErrConfig) ||
			!strings.Contains(report.Problems[0].Error(), "type nvidia-1553 needs max_instances and vgpu_name, and the address "+blackwell) {
			t.Errorf("%s: devices %v, problems %v", at, report.Devices, report.Problems)
		}
	}
}

func TestATypeOfAnotherNameIsAProblem(t *testing.T) {
	t.Parallel()
	report := discover(t, vgpus(vgpuType(1553, 4, "DC-48Q")), vgpuTree(t))
	if len(report.Devices) > 0 || len(report.Problems) != 1 || !errors.Is(report.Problems[0], driver.ErrConfig) {
		t.Errorf("devices %v, problems %v", report.Devices, report.Problems)
	}
}

func TestAVirtualFunctionThatVFIOHasIsNotOffered(t *testing.T) {
	t.Parallel()
	tree := vgpuTree(t)
	tree.SetLink("bus/pci/devices/0001:c8:00.3/driver", "../../../bus/pci/drivers/igb")
	report := discover(t, vgpus(q48), tree)
	if got := report.Devices[0].Deployables[0].AttachHandles; len(got) != 1 || got[0].Info["function"] != "2" {
		t.Errorf("handles %v", got)
	}
}

func TestTheTypeOfAFunctionIsOursOrLeftAlone(t *testing.T) {
	t.Parallel()
	type do func(*nvidia.Driver, *sysfs.Memory) error
	set := func(id int, bound bool) do {
		return func(d *nvidia.Driver, _ *sysfs.Memory) error {
			return d.SetVGPU(t.Context(), driver.VGPU{Function: function(2), Type: id}, bound)
		}
	}
	clearType := func(id int) do {
		return func(d *nvidia.Driver, _ *sysfs.Memory) error {
			return d.ClearVGPU(t.Context(), driver.VGPU{Function: function(2), Type: id})
		}
	}
	write := func(function driver.PCIAddress, text string) do {
		return func(_ *nvidia.Driver, m *sysfs.Memory) error {
			return m.WriteFile(driver.VGPUFile(function), []byte(text))
		}
	}
	hold := func(_ *nvidia.Driver, m *sysfs.Memory) error { return m.HoldVGPU(function(2), true) }
	for _, tt := range []struct {
		name    string
		before  []do
		do      do
		want    error
		current string
	}{
		{"a new one", nil, set(1553, false), nil, "1553\n"},
		{"again after a restart of the agent", []do{set(1553, false)}, set(1553, true), nil, "1553\n"},
		{"set by another program", []do{write(function(2), "1553")}, set(1553, false), fs.ErrExist, "1553\n"},
		{"another type set by another program", []do{write(function(2), "1555")}, set(1553, true), fs.ErrExist, "1555\n"},
		{"no room", []do{write(function(3), "1555")}, set(1553, false), syscall.EINVAL, "0\n"},
		{"cleared", []do{set(1553, false)}, clearType(1553), nil, "0\n"},
		{"cleared twice", []do{set(1553, false), clearType(1553)}, clearType(1553), nil, "0\n"},
		{"the next owner's", []do{write(function(2), "1555")}, clearType(1553), nil, "1555\n"},
		{"a guest has it", []do{set(1553, false), hold}, clearType(1553), syscall.EBUSY, "1553\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := vgpuTree(t)
			d := newDriver(t, vgpus(q24), tree)
			for _, step := range tt.before {
				if err := step(d, tree); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.do(d, tree); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if got, err := tree.ReadFile(driver.VGPUFile(function(2))); err != nil || string(got) != tt.current {
				t.Errorf("current_vgpu_type = %q, %v, want %q", got, err, tt.current)
			}
		})
	}
}

func TestAConfigurationOfVGPUsIsChecked(t *testing.T) {
	t.Parallel()
	for want, types := range map[string][]nvidia.VGPUType{
		"max_instances and vgpu_name are given together": {{Name: "nvidia-1", DeviceAddresses: []string{blackwell}, MaxInstances: 1}},
		"max_instances -1 is negative":                   {{Name: "nvidia-1", DeviceAddresses: []string{blackwell}, MaxInstances: -1}},
		`vGPU type "GRID" is not nvidia- and a number`:   {{Name: "GRID", DeviceAddresses: []string{blackwell}, MaxInstances: 1, VGPUName: "A"}},
		"Duplicate types for PCI address 0001:c8:00.0":   {q24, {Name: "nvidia-35", DeviceAddresses: []string{blackwell}}},
	} {
		_, err := nvidia.New(nvidia.Config{Host: "h", EnabledVGPUTypes: types}, sysfs.NewMemory())
		if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %s", err, want)
		}
	}
}

// TestAFunctionThatLeavesLeavesTheOthersTheirTypes takes virtual functions from the driver of NVIDIA, as libvirt does for a
// guest with managed='yes'. Those that stay are offered as before, with their vGPUs, and none replaces those that left.
func TestAFunctionThatLeavesLeavesTheOthersTheirTypes(t *testing.T) {
	t.Parallel()
	for held, config := range map[uint8]nvidia.Config{3: vgpus(q48), 6: vgpus(q24, q48)} {
		t.Run(fmt.Sprint(len(config.EnabledVGPUTypes), " types"), func(t *testing.T) {
			t.Parallel()
			tree := vgpuTree(t)
			if err := newDriver(t, config, tree).SetVGPU(t.Context(), driver.VGPU{Function: function(held), Type: 1555}, false); err != nil {
				t.Fatal(err)
			}
			before := discover(t, config, tree)
			first := before.Devices[0].Deployables[0].AttachHandles[0]
			gone, err := driver.PCIAddressOf(first.Info)
			if err != nil {
				t.Fatal(err)
			}
			tree.Remove(path.Dir(driver.VGPUFile(gone)))
			want := before.Devices[0].Clone()
			part := &want.Deployables[0]
			part.AttachHandles, part.NumAccelerators = part.AttachHandles[1:], part.NumAccelerators-1
			after := discover(t, config, tree)
			if diff := cmp.Diff([]driver.Device{want}, after.Devices); diff != "" || len(after.Problems) > 0 {
				t.Errorf("without virtual function %s (-want +got):\n%s%v", gone, diff, after.Problems)
			}
			if len(after.LeftOut) != len(before.LeftOut)+1 {
				t.Errorf("left out are %v, before %v, want %s in addition", after.LeftOut, before.LeftOut, gone)
			}
		})
	}
}
