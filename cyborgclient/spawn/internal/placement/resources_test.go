package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

func TestNodeProvidersAreNotTheSharedStorage(t *testing.T) {
	t.Parallel()
	held := map[string]map[string]int{
		"a-storage": {"DISK_GB": 20},
		"b-node":    {"MEMORY_MB": 512},
		"c-device":  {"PGPU": 1},
	}
	if got := placement.NodeProviders(held); !slices.Equal(got, []string{"b-node"}) {
		t.Errorf("got providers %s, want b-node", got)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	held := placement.Resources{"node": {"VCPU": 2, "PGPU": 1}, "device": {"VGPU": 1}}
	sum := placement.Add(held, placement.Resources{"device": {"VGPU": 1}})
	if diff := cmp.Diff(placement.Resources{"node": {"VCPU": 2, "PGPU": 1}, "device": {"VGPU": 2}}, sum); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
	if held["device"]["VGPU"] != 1 || placement.Equal(held, sum) {
		t.Error("Add changed its argument")
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	held := placement.Resources{
		"node":    {"VCPU": 2, "MEM_ENCRYPTION_CONTEXT": 1, "PGPU": 1, "CUSTOM_ACCELERATOR_MEMORY_DDR4": 64},
		"root":    {"DISK_GB": 20, "PGPU": 1}, // of a node whose processors are below it
		"device":  {"VGPU": 1},
		"card":    {"CUSTOM_ACCELERATOR_MEMORY_HBM": 64}, // above the device
		"another": {"VGPU": 1},
	}
	want := placement.Resources{
		"node": {"VCPU": 2, "MEM_ENCRYPTION_CONTEXT": 1}, "root": {"DISK_GB": 20}, "another": {"VGPU": 1},
	}
	devices := placement.Devices{"device": {"PGPU": true}} // its class has changed
	for _, node := range []string{"node", "root", "unused"} {
		devices.Add(node, "PGPU")
	}
	before := placement.Clone(held)
	if diff := cmp.Diff(want, placement.WithoutMemory(placement.Without(held, devices))); diff != "" {
		t.Errorf("without devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, held); diff != "" {
		t.Errorf("the argument (-before +after):\n%s", diff)
	}
}

func TestSubtractAndElsewhere(t *testing.T) {
	t.Parallel()
	held := placement.Resources{"node": {"VCPU": 2, "PGPU": 1}, "device": {"VGPU": 1}, "storage": {"DISK_GB": 20}}
	rest := placement.Subtract(held, placement.Resources{"node": {"PGPU": 1}, "device": {"VGPU": 2}, "other": {"VCPU": 1}, "storage": {"DISK_GB": 5}})
	if diff := cmp.Diff(placement.Resources{"node": {"VCPU": 2}, "storage": {"DISK_GB": 15}}, rest); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	want := placement.Resources{"storage": {"DISK_GB": 20}}
	if diff := cmp.Diff(want, placement.Elsewhere(held, map[string]bool{"node": true, "device": true})); diff != "" {
		t.Errorf("elsewhere (-want +got):\n%s", diff)
	}
	if len(held) != 3 || held["node"]["PGPU"] != 1 {
		t.Errorf("the argument is %v now", held)
	}
}
