package driver_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// The texts are those of public threads about the cards: bigstack-oss/cubecos issue 312 (RTX PRO 6000),
// harvester/pcidevices (L40S, Apache-2.0), NVIDIA/kubevirt-gpu-device-plugin pull request 192 (H200,
// Apache-2.0, without the header).
func TestTheTypesThatACardLists(t *testing.T) {
	t.Parallel()
	function := driver.PCIAddress{Bus: 0x3d, Function: 4}
	for name, tt := range map[string]struct {
		text string
		want []driver.VGPUType
		bad  bool
	}{
		"RTX PRO 6000": {"ID    : vGPU Name\n1518  : NVIDIA RTX Pro 6000 Blackwell DC-2B\n1519  : NVIDIA RTX Pro 6000 Blackwell DC-3Q\n",
			[]driver.VGPUType{{ID: 1518, Name: "NVIDIA RTX Pro 6000 Blackwell DC-2B"}, {ID: 1519, Name: "NVIDIA RTX Pro 6000 Blackwell DC-3Q"}}, false},
		"L40S":                {"ID    : vGPU Name\n1145  : NVIDIA L40S-1B\n", []driver.VGPUType{{ID: 1145, Name: "NVIDIA L40S-1B"}}, false},
		"H200, no header":     {"1428 : NVIDIA H200X-141C\n1414 : NVIDIA H200X-1-18C\n", []driver.VGPUType{{ID: 1428, Name: "NVIDIA H200X-141C"}, {ID: 1414, Name: "NVIDIA H200X-1-18C"}}, false},
		"a full card":         {"ID    : vGPU Name\n", nil, false},
		"MIG, no instance":    {"", nil, false},
		"an invalid id":       {"ID    : vGPU Name\n-1 : NVIDIA L40S-1B\n", nil, true},
		"a line without name": {"1145\n", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, sysfs.PCIDevice{Address: function.String(), Vendor: "10de", Product: "26b9", Class: "0302",
				Files: map[string]string{"nvidia/creatable_vgpu_types": tt.text}})
			got, err := driver.CreatableVGPUs(driver.NewView(tree), function)
			if diff := cmp.Diff(tt.want, got); diff != "" || errors.Is(err, driver.ErrGarbled) != tt.bad || !tt.bad && err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := driver.CreatableVGPUs(driver.NewView(sysfs.NewMemory()), function); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a function without vGPUs: %v, want ErrNotExist", err)
	}
}

func TestTheHandleOfAVGPU(t *testing.T) {
	t.Parallel()
	v := driver.VGPU{Function: driver.PCIAddress{Domain: 1, Bus: 0xc8, Function: 2}, Type: 1555}
	got, found, err := v.Handle().VGPU()
	if got != v || !found || err != nil {
		t.Errorf("%+v, %t, %v", got, found, err)
	}
	plain := driver.AttachHandle{Type: driver.HandlePCI, Info: v.Function.Info()}
	if _, found, err := plain.VGPU(); found || err != nil {
		t.Errorf("a plain function: %t, %v", found, err)
	}
	for _, asked := range []string{"1555", "nvidia-", "nvidia-0", "nvidia-01", "nvidia-x", "nvidia-99999999999"} {
		h := v.Handle()
		h.Info["asked_type"] = asked
		if _, found, err := h.VGPU(); !found || !errors.Is(err, driver.ErrHandle) {
			t.Errorf("%s: %t, %v, want ErrHandle", asked, found, err)
		}
	}
}
