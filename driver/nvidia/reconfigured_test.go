package nvidia_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// computeHost is a host of a cloud whose agent is configured anew.
type computeHost struct {
	t      *testing.T
	cloud  *simcloud.Cloud
	tree   *sysfs.Memory
	driver *configured
}

// configured is the driver of an agent with its configuration of now.
type configured struct{ *nvidia.Driver }

func startHost(t *testing.T, tree *sysfs.Memory, states bool, types ...nvidia.VGPUType) *computeHost {
	t.Helper()
	model := simcloud.Model{Hosts: []simcloud.Host{}, DeviceProfiles: []simcloud.DeviceProfile{
		{Name: "vgpu", Groups: []map[string]string{{"resources:VGPU": "1"}}},
	}}
	model.Cyborg.BindingStates = states
	h := &computeHost{t: t, cloud: simcloud.Run(t, model), tree: tree, driver: &configured{}}
	h.configure(types...)
	if _, err := h.cloud.Placement.CreateProvider(placementsim.ResourceProvider{
		Name: "cn0", Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 64}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.cloud.Cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{h.driver}}); err != nil {
		t.Fatal(err)
	}
	if err := h.cloud.Cyborg.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *computeHost) configure(types ...nvidia.VGPUType) {
	h.t.Helper()
	d, err := nvidia.New(nvidia.Config{Host: "cn0", EnabledVGPUTypes: types}, h.tree)
	if err != nil {
		h.t.Fatal(err)
	}
	h.driver.Driver = d
}

// report reports; what is in use and not reported any more is an error of each report.
func (h *computeHost) report() { _ = h.cloud.Cyborg.Report(h.t.Context()) }

// restart stops the agent, calls change and starts the agent.
func (h *computeHost) restart(change func()) {
	h.t.Helper()
	if err := h.cloud.Cyborg.StopAgent("cn0"); err != nil {
		h.t.Fatal(err)
	}
	change()
	_ = h.cloud.Cyborg.StartAgent(h.t.Context(), "cn0") // with the errors of its report
}

// bind binds a new request and returns it as it is then.
func (h *computeHost) bind(deployable, instance string) (fakecyborg.ARQ, error) {
	h.t.Helper()
	list := h.cloud.Cyborg.Deployables()
	i := slices.IndexFunc(list, func(d fakecyborg.StoredDeployable) bool { return d.Name == deployable })
	arqs, err := h.cloud.Cyborg.CreateARQs("vgpu", "project")
	if i < 0 || err != nil {
		h.t.Fatalf("deployable %s is number %d; %v", deployable, i, err)
	}
	err = h.cloud.Cyborg.Bind(h.t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: list[i].ProviderUUID, Instance: instance})
	bound := h.cloud.Cyborg.ARQs()
	return bound[slices.IndexFunc(bound, func(a fakecyborg.ARQ) bool { return a.UUID == arqs[0].UUID })], err
}

func (h *computeHost) mustBind(deployable string, instances ...string) {
	h.t.Helper()
	for _, instance := range instances {
		if _, err := h.bind(deployable, instance); err != nil {
			h.t.Fatal(err)
		}
	}
}

// typed has the card divided into a type.
func typed(name string) nvidia.VGPUType {
	return nvidia.VGPUType{Name: name, DeviceAddresses: []string{card}}
}

func (h *computeHost) states() (list []fakecyborg.State) {
	for _, a := range h.cloud.Cyborg.ARQs() {
		list = append(list, a.State)
	}
	return list
}

const (
	instanceA = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	instanceB = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"
)

func mixedTree(t *testing.T) *sysfs.Memory {
	return vgpuTree(t, func(v *sysfs.VFs) {
		v.VGPUs.Mixed = true
		v.VGPUs.Types = []sysfs.VGPUType{
			{ID: 1555, Name: q48.VGPUName, FramebufferMiB: 12288, MaxInstances: 4},
			{ID: 1553, Name: q24.VGPUName, FramebufferMiB: 6144, MaxInstances: 8},
		}
	})
}

// A function in use is not reported any more as what it is after max_instances was lowered.
func TestAVGPUThatIsNoLongerReportedIsRestored(t *testing.T) {
	t.Parallel()
	few := q48
	few.MaxInstances = 1
	for _, states := range []bool{false, true} {
		h := startHost(t, mixedTree(t), states, q48, q24)
		h.mustBind("cn0_"+blackwell+"_nvidia-1555", instanceA, instanceB)
		before, err := sysfs.VGPUs(h.tree)
		if err != nil || len(before) != 2 {
			t.Fatalf("vGPUs %v, %v", before, err)
		}
		h.configure(few)
		h.report()
		h.restart(h.tree.Reboot)
		if after, err := sysfs.VGPUs(h.tree); err != nil || !cmp.Equal(before, after) {
			t.Errorf("binding states %t: vGPUs %v after the restart, %v; before %v", states, after, err, before)
		}
		if diff := cmp.Diff([]fakecyborg.State{fakecyborg.StateBound, fakecyborg.StateBound}, h.states()); diff != "" {
			t.Errorf("binding states %t (-want +got):\n%s", states, diff)
		}
	}
}

// A mediated device of a type that is not configured any more cannot be created again.
func TestAVanishedMediatedDeviceThatIsNotRestoredFails(t *testing.T) {
	t.Parallel()
	h := startHost(t, drivertest.Tree(t, t4(card)), true, typed("nvidia-35"))
	h.mustBind("cn0_"+card, instanceA)
	h.restart(func() { h.configure(typed("nvidia-36")) })
	if got := h.states(); !slices.Equal(got, []fakecyborg.State{fakecyborg.StateBound}) {
		t.Errorf("states %v while the mediated device is there", got)
	}
	h.restart(h.tree.Reboot)
	for _, want := range []fakecyborg.State{"provisioning", "provisioning", fakecyborg.StateBindFailed} {
		if got := h.states(); !slices.Equal(got, []fakecyborg.State{want}) {
			t.Fatalf("states %v, want %s", got, want)
		}
		h.report()
	}
	h.configure(typed("nvidia-35"))
	h.report()
	if got := h.states(); !slices.Equal(got, []fakecyborg.State{fakecyborg.StateBound}) {
		t.Errorf("states %v with the first configuration again", got)
	}
}

// A function is reported as a vGPU of another type while a guest has it, and when it has lost its vGPU by a restart.
func TestAFunctionThatARequestHasIsNotOfferedAsAnotherType(t *testing.T) {
	t.Parallel()
	few, other := q48, q24
	few.MaxInstances, other.MaxInstances = 1, 2
	h := startHost(t, mixedTree(t), false, q48, other)
	h.mustBind("cn0_"+blackwell+"_nvidia-1555", instanceA, instanceB)
	h.configure(few, other)
	for _, step := range []func(){h.report, func() { h.restart(h.tree.Reboot) }, h.report} {
		step()
		var got []string
		for _, handle := range h.cloud.Cyborg.AttachHandles() {
			got = append(got, fmt.Sprintf("%s %s %t", handle.Info["function"], handle.Info["asked_type"], handle.InUse))
		}
		if diff := cmp.Diff([]string{"2 nvidia-1555 true", "3 nvidia-1555 true", "4 nvidia-1553 false"}, got); diff != "" {
			t.Errorf("handles (-want +got):\n%s", diff)
		}
	}
}

// A request that was scheduled by the trait of a type is not bound to another one.
func TestARequestIsNotBoundToATypeThatItsProfileDoesNotName(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, t4(card))
	h := startHost(t, tree, false, typed("nvidia-35"))
	group := map[string]string{"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_1B": "required"}
	if _, err := h.cloud.Cyborg.CreateDeviceProfile("t4-1b", []map[string]string{group}); err != nil {
		t.Fatal(err)
	}
	bind := func(instance string) error {
		t.Helper()
		arqs, err := h.cloud.Cyborg.CreateARQs("t4-1b", "project")
		if err != nil {
			t.Fatal(err)
		}
		provider := h.cloud.Cyborg.Deployables()[0].ProviderUUID
		return h.cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: instance})
	}
	h.configure(typed("nvidia-36"))
	h.report()
	if err := bind(instanceA); err == nil || !strings.Contains(err.Error(), "no longer has trait CUSTOM_NVIDIA_1EB8_T4_1B") {
		t.Errorf("bound to the other type: %v", err)
	}
	if mdevs := tree.Mdevs(); len(mdevs) > 0 {
		t.Errorf("mediated devices %v", mdevs)
	}
	h.configure(typed("nvidia-35"))
	h.report()
	if err := bind(instanceB); err != nil {
		t.Errorf("bound to the type: %v", err)
	}
}
