package nvidia_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func TestTheNamesOfEveryShape(t *testing.T) {
	t.Parallel()
	names := func(p driver.Deployable) []string { return append([]string{p.Class}, p.Traits...) }
	for _, tt := range []struct {
		shape       driver.TraitShape
		whole, vgpu []string
	}{
		{driver.ShapeShipped, []string{"PGPU", "OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8"}, []string{"VGPU", "OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B"}},
		{driver.ShapeWallaby, []string{"PGPU", "OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8"}, []string{"VGPU", "OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B"}},
		{driver.ShapeRockyScheduling,
			[]string{"CUSTOM_ACCELERATOR_GPU", "OWNER_CYBORG", "CUSTOM_GPU_NVIDIA", "CUSTOM_GPU_NVIDIA_T4"},
			[]string{"CUSTOM_ACCELERATOR_GPU", "OWNER_CYBORG", "CUSTOM_GPU_NVIDIA", "CUSTOM_GPU_NVIDIA_T4", "CUSTOM_GPU_NVIDIA_T4_1B"}},
		{driver.ShapeRockyAgent,
			[]string{"CUSTOM_ACCELERATOR_GPU", "OWNER_CYBORG", "CUSTOM_GPU_NVIDIA_T4"},
			[]string{"CUSTOM_ACCELERATOR_GPU", "OWNER_CYBORG", "CUSTOM_GPU_NVIDIA_T4", "CUSTOM_GPU_NVIDIA_T4_1B"}},
	} {
		config := divide("nvidia-35", card)
		config.TraitShape = tt.shape
		report := discover(t, config, drivertest.Tree(t, t4(card), t4(other)))
		if len(report.Devices) != 2 {
			t.Fatalf("%+v", report)
		}
		if diff := cmp.Diff(tt.vgpu, names(report.Devices[0].Deployables[0])); diff != "" {
			t.Errorf("%s: vGPU (-want +got):\n%s", tt.shape, diff)
		}
		if diff := cmp.Diff(tt.whole, names(report.Devices[1].Deployables[0])); diff != "" {
			t.Errorf("%s: whole GPU (-want +got):\n%s", tt.shape, diff)
		}
	}
}

func TestAProductWithoutAWordHasItsID(t *testing.T) {
	t.Parallel()
	report := discover(t, nvidia.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyAgent}},
		drivertest.Tree(t, t4(card, func(d *sysfs.PCIDevice) { d.Product = "ffff" })))
	if diff := cmp.Diff([]string{"OWNER_CYBORG", "CUSTOM_GPU_NVIDIA_FFFF"}, report.Devices[0].Deployables[0].Traits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheMemoryOfACardIsReportedWhenAskedFor(t *testing.T) {
	t.Parallel()
	report := discover(t, nvidia.Config{Policy: driver.Policy{LocalMemory: []driver.LocalMemory{{Type: "GDDR6", MiB: 16384}}}}, drivertest.Tree(t, t4(card)))
	if diff := cmp.Diff(map[string]int{"CUSTOM_ACCELERATOR_MEMORY_GDDR6": 16384}, report.Devices[0].Deployables[0].Resources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMediatedDevicesOfOtherTypesAreAWarning(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, t4(card, func(d *sysfs.PCIDevice) { d.MixedMdevTypes = true }))
	makeMdev(tree, "nvidia-35", id1)
	makeMdev(tree, "nvidia-36", id2)
	report := discover(t, divide("nvidia-35", card), tree)
	if len(report.Warnings) != 1 || report.Warnings[0].Reason != "mediated devices of other types (1) lower the capacity" {
		t.Errorf("warnings: %+v", report.Warnings)
	}
}
