package simcloud_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// nvmeDisk is a disk of a domain that represents the GPU of cn0.
const nvmeDisk = "<disk type='nvme' device='disk'><source type='pci' managed='yes' namespace='1'><address domain='0x0000' bus='0x3b' slot='0x00' function='0x0'/></source></disk>"

// Each case breaks one thing in a consistent cloud and expects exactly the leaks that follow
// from it.
func TestEachLeakIsFound(t *testing.T) {
	t.Parallel()
	type breakage struct {
		name  string
		spoil func(u *user, gpu, vgpu spawned)
		want  []string // kind and words of each leak
	}
	for _, tt := range []breakage{
		{"nothing", func(*user, spawned, spawned) {}, nil},
		{"guest forgotten", func(u *user, gpu, _ spawned) { u.cloud.RemoveGuest(gpu.uuid) }, []string{
			"arq: ARQ {gpu.arq} (Bound, device profile gpu) belongs to instance {gpu}, which is not a registered guest, and holds PCI handle 0000:3b:00.0 of provider cn0_0000:3b:00.0 on host cn0",
			"allocation: consumer {gpu}, which is not a registered guest, has allocated MEMORY_MB:512 on cn0, VCPU:1 on cn0, PGPU:1 on cn0_0000:3b:00.0",
		}},
		{"vGPU guest forgotten", func(u *user, _, vgpu spawned) { u.cloud.RemoveGuest(vgpu.uuid) }, []string{
			"arq: ARQ {vgpu.arq} (Bound, device profile vgpu) belongs to instance {vgpu}, which is not a registered guest, and holds MDEV handle {vgpu.handle} of provider cn0_0000:af:00.0 on host cn0",
			"allocation: consumer {vgpu}, which is not a registered guest, has allocated",
		}},
		{"ARQ never bound", func(u *user, _, _ spawned) { u.createARQs("gpu") }, []string{
			"arq: (Initial, device profile gpu) belongs to no instance",
		}},
		{"leaked allocation", func(u *user, gpu, _ spawned) {
			u.cloud.RemoveGuest(gpu.uuid)
			u.do("DELETE", "/accelerator/v2/accelerator_requests?instance="+gpu.uuid, accelerator, nil, 204, nil)
		}, []string{"allocation: consumer {gpu}, which is not a registered guest, has allocated PGPU:1"}},
		{"allocation of the root only", func(u *user, _, _ spawned) {
			u.claimDirectly(instance(9), u.cloud.ProviderUUID("cn1"), "VCPU")
		}, []string{"allocation: consumer " + instance(9) + ", which is not a registered guest, has allocated VCPU:1 on cn1"}},
		{"allocation elsewhere is not ours", func(u *user, _, _ spawned) {
			p, err := u.cloud.Placement.CreateProvider(placementsim.ResourceProvider{Name: "storage", Inventories: map[string]placementsim.Inventory{"DISK_GB": {Total: 10}}})
			must(u.t, err)
			u.claimDirectly(instance(9), p.UUID, "DISK_GB")
		}, nil},
		{"allocation released too early", func(u *user, gpu, _ spawned) {
			u.do("DELETE", "/placement/allocations/"+gpu.uuid, placement, nil, 204, nil)
		}, []string{"guest: guest {gpu} has ARQ {gpu.arq} (Bound, device profile gpu) on provider cn0_0000:3b:00.0, but no allocation there"}},
		{"ARQ deleted under a guest", func(u *user, gpu, _ spawned) {
			u.do("DELETE", "/accelerator/v2/accelerator_requests?instance="+gpu.uuid, accelerator, nil, 204, nil)
		}, []string{
			"guest: guest {gpu} has allocated PGPU:1 on provider cn0_0000:3b:00.0, but has 0 accelerator requests there",
			"guest: guest {gpu} has PCI 0000:3b:00.0 of provider cn0_0000:3b:00.0 in its domain XML, but no accelerator request for it",
		}},
		{"PCI device not in the domain", func(u *user, gpu, _ spawned) { gpu.define(u, "") }, []string{
			"guest: guest {gpu} has ARQ {gpu.arq} (Bound, device profile gpu), but its PCI handle 0000:3b:00.0 is not in the guest's domain XML",
		}},
		{"mediated device not in the domain", func(u *user, gpu, vgpu spawned) { vgpu.define(u, domainOf(u.t)) }, []string{
			"guest: guest {vgpu} has ARQ {vgpu.arq} (Bound, device profile vgpu), but its MDEV handle {vgpu.handle} is not in the guest's domain XML",
		}},
		{"another's device in the domain", func(u *user, gpu, vgpu spawned) { vgpu.define(u, domainOf(u.t, vgpu.arq, gpu.arq)) }, []string{
			"guest: guest {vgpu} has PCI 0000:3b:00.0 of provider cn0_0000:3b:00.0 in its domain XML, but no accelerator request for it",
		}},
		{"another's device in the domain as an NVMe disk", func(u *user, gpu, vgpu spawned) {
			vgpu.define(u, strings.Replace(domainOf(u.t, vgpu.arq), "</devices>", nvmeDisk+"</devices>", 1))
		}, []string{
			"guest: guest {vgpu} has PCI 0000:3b:00.0 of provider cn0_0000:3b:00.0 in its domain XML, but no accelerator request for it",
		}},
		{"its own device in the domain as an NVMe disk", func(u *user, gpu, _ spawned) {
			gpu.define(u, strings.Replace(domainOf(u.t), "</devices>", nvmeDisk+"</devices>", 1))
		}, nil},
		{"devices of its own in the domain are its affair", func(u *user, gpu, _ spawned) {
			own := "<hostdev type='usb'/><hostdev type='pci'><source><address bus='0x77'/></source></hostdev></devices>"
			gpu.define(u, strings.Replace(domainOf(u.t, gpu.arq), "</devices>", own, 1))
		}, nil},
		{"guest on another host", func(u *user, gpu, _ spawned) {
			gpu.host = "cn1"
			gpu.define(u, domainOf(u.t, gpu.arq))
		}, []string{
			"guest: guest {gpu} runs on host cn1, but its ARQ {gpu.arq} (Bound, device profile gpu) is on host cn0",
			"guest: guest {gpu} runs on host cn1, but has allocated MEMORY_MB:512 on cn0, VCPU:1 on cn0",
			"guest: guest {gpu} has PCI 0000:3b:00.0 of provider cn1_0000:3b:00.0 in its domain XML, but no accelerator request for it",
		}},
		{"more bound than allocated", func(u *user, _, _ spawned) {
			s := spawned{uuid: instance(3)}
			s.provider, s.host = u.claim(s.uuid, "VGPU:1", "CUSTOM_GPU_NVIDIA")
			s.define(u, domainOf(u.t, u.bindDirectly(s, s.host, append(u.createARQs("vgpu"), u.createARQs("vgpu")...)...)...))
		}, []string{"guest: guest " + instance(3) + " has 2 bound accelerator requests on provider cn0_0000:af:00.0, but has allocated VGPU:1 there"}},
		{"device of another host", func(u *user, _, _ spawned) {
			s := spawned{uuid: instance(3), host: "cn1"}
			s.provider, _ = u.claim(s.uuid, "FPGA:1", "CUSTOM_FAKE_DEVICE")
			s.define(u, domainOf(u.t, u.bindDirectly(s, s.host, u.createARQs("fake")...)...))
		}, []string{
			"guest: guest " + instance(3) + " has ARQ (Bound, device profile fake) on host cn1, but its attach handle is one of host cn0",
			"guest: guest " + instance(3) + " runs on host cn1, but has allocated MEMORY_MB:512 on cn0, VCPU:1 on cn0",
		}},
		{"compute resources and a port of another host", func(u *user, gpu, _ spawned) {
			nic, err := u.cloud.Placement.CreateProvider(placementsim.ResourceProvider{
				Name: "cn1_agent", Parent: u.cloud.ProviderUUID("cn1"), Inventories: map[string]placementsim.Inventory{"SRIOV_NET_VF": {Total: 1}},
			})
			must(u.t, err)
			var all []placementsim.Allocation
			for _, a := range u.cloud.Placement.Allocations() {
				if a.Consumer == gpu.uuid {
					all = append(all, placementsim.Allocation{Provider: a.Provider, Class: a.Class, Used: a.Used})
				}
			}
			u.do("DELETE", "/placement/allocations/"+gpu.uuid, placement, nil, 204, nil)
			all = append(all, placementsim.Allocation{Provider: u.cloud.ProviderUUID("cn1"), Class: "VCPU", Used: 2},
				placementsim.Allocation{Provider: nic.UUID, Class: "SRIOV_NET_VF", Used: 1})
			must(u.t, u.cloud.Placement.Claim(placementsim.Claim{Consumer: gpu.uuid, Project: gpu.arq.ProjectID, User: "u", Allocations: all}))
		}, []string{"guest: guest {gpu} runs on host cn0, but has allocated VCPU:2 on cn1, SRIOV_NET_VF:1 on cn1_agent"}},
		{"disk of a host that shares it", func(u *user, gpu, _ spawned) {
			other := u.cloud.ProviderUUID("cn1")
			p, err := u.cloud.Placement.ResourceProvider(other)
			must(u.t, err)
			must(u.t, u.cloud.Placement.SetTraits(other, append(p.Traits, "MISC_SHARES_VIA_AGGREGATE")...))
			var all []placementsim.Allocation
			for _, a := range u.cloud.Placement.Allocations() {
				if a.Consumer == gpu.uuid {
					all = append(all, placementsim.Allocation{Provider: a.Provider, Class: a.Class, Used: a.Used})
				}
			}
			u.do("DELETE", "/placement/allocations/"+gpu.uuid, placement, nil, 204, nil)
			all = append(all, placementsim.Allocation{Provider: other, Class: "DISK_GB", Used: 2})
			must(u.t, u.cloud.Placement.Claim(placementsim.Claim{Consumer: gpu.uuid, Project: gpu.arq.ProjectID, User: "u", Allocations: all}))
		}, nil},
		{"bind that failed", func(u *user, _, _ spawned) {
			s := spawned{uuid: instance(3)}
			s.provider, s.host = u.claim(s.uuid, "VGPU:1", "CUSTOM_GPU_NVIDIA")
			u.mustFault(fault.Rule{Operation: fault.MdevCreate, Action: fault.Status})
			id := u.createARQs("vgpu")[0]
			u.send("PATCH", "/accelerator/v2/accelerator_requests", accelerator, fmt.Sprintf(
				`{%q:[{"path":"/hostname","op":"add","value":%q},{"path":"/device_rp_uuid","op":"add","value":%q},{"path":"/instance_uuid","op":"add","value":%q},{"path":"/project_id","op":"add","value":"p"}]}`,
				id, s.host, s.provider, s.uuid))
			s.define(u, domainOf(u.t))
		}, []string{"guest: guest " + instance(3) + " has ARQ (BindFailed, device profile vgpu), which is not Bound to an attach handle"}},
		{"mediated device that cannot be removed", func(u *user, _, vgpu spawned) {
			u.mustFault(fault.Rule{Operation: fault.MdevRemove, Action: fault.Status, Times: -1})
			u.cloud.RemoveGuest(vgpu.uuid)
			u.send("DELETE", "/accelerator/v2/accelerator_requests?instance="+vgpu.uuid, accelerator, "")
			u.do("DELETE", "/placement/allocations/"+vgpu.uuid, placement, nil, 204, nil)
		}, []string{"arq: ARQ {vgpu.arq} (Bound, device profile vgpu) belongs to instance {vgpu}, which is not a registered guest, and holds "}},
		{"another project pays", func(u *user, gpu, _ spawned) {
			u.do("DELETE", "/placement/allocations/"+gpu.uuid, placement, nil, 204, nil)
			u.claimDirectly(gpu.uuid, gpu.provider, "PGPU")
		}, []string{`guest: guest {gpu} has ARQ {gpu.arq} (Bound, device profile gpu) of project ` +
			`but its allocation on provider cn0_0000:3b:00.0 counts for project "p", which Keystone does not know`}},
		{"Nova got an event of a failure", func(u *user, gpu, _ spawned) { u.tellNova(gpu.uuid, gpu.arq.UUID, "failed") }, []string{
			`guest: guest {gpu} has ARQ {gpu.arq} (Bound, device profile gpu), but the last event to Nova says that its bind ended as "failed"`,
		}},
		{"Nova got an event of another instance", func(u *user, gpu, vgpu spawned) { u.tellNova(vgpu.uuid, gpu.arq.UUID, "completed") }, []string{
			"guest: guest {gpu} has ARQ {gpu.arq} (Bound, device profile gpu), but the last event to Nova says that it is bound for instance {vgpu}",
		}},
		{"Nova got an event of a failure before", func(u *user, gpu, _ spawned) {
			u.tellNova(gpu.uuid, gpu.arq.UUID, "failed")
			u.tellNova(gpu.uuid, gpu.arq.UUID, "completed")
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := login(t, simcloud.Run(t), "admin", "admin")
			gpu, vgpu := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_NVIDIA_15F8"), u.spawn(2, "vgpu", "VGPU:1", "CUSTOM_GPU_NVIDIA")
			tt.spoil(u, gpu, vgpu)
			names := strings.NewReplacer("{gpu}", gpu.uuid, "{gpu.arq}", gpu.arq.UUID,
				"{vgpu}", vgpu.uuid, "{vgpu.arq}", vgpu.arq.UUID, "{vgpu.handle}", vgpu.arq.AttachHandleUUID)
			checkLeaks(t, u.cloud.Leaks(), tt.want, names)
			var fails recordingTB
			u.cloud.CheckNoLeaks(&fails)
			if fails.failed != (len(tt.want) > 0) {
				t.Errorf("CheckNoLeaks failed: %v", fails.failed)
			}
		})
	}
}

// tellNova sends the event that Cyborg would.
func (u *user) tellNova(server, arq, status string) {
	u.t.Helper()
	u.do("POST", "/compute/v2.1/os-server-external-events", "compute 2.82", map[string]any{"events": []any{
		map[string]string{"name": "accelerator-request-bound", "server_uuid": server, "tag": arq, "status": status},
	}}, 200, nil)
}

func (u *user) mustFault(rules ...fault.Rule) {
	u.t.Helper()
	must(u.t, u.cloud.Faults().Set(rules...))
}

func (u *user) claimDirectly(consumer, provider, class string) {
	u.t.Helper()
	must(u.t, u.cloud.Placement.Claim(placementsim.Claim{Consumer: consumer, Project: "p", User: "u",
		Allocations: []placementsim.Allocation{{Provider: provider, Class: class, Used: 1}}}))
}

// bindDirectly binds requests on the provider of an instance, as if they were on a host.
func (u *user) bindDirectly(s spawned, host string, arqs ...string) (bound []fakecyborg.ARQ) {
	u.t.Helper()
	var bindings []fakecyborg.Binding
	for _, arq := range arqs {
		bindings = append(bindings, fakecyborg.Binding{ARQ: arq, Host: host, Provider: s.provider, Instance: s.uuid})
	}
	must(u.t, u.cloud.Cyborg.Bind(u.t.Context(), bindings...))
	for _, a := range u.cloud.Cyborg.ARQs() {
		if a.InstanceUUID == s.uuid {
			bound = append(bound, a)
		}
	}
	return bound
}

// On a flat host all classes are on one provider.
func TestAnAllocationOfAnotherClassIsNotForADevice(t *testing.T) {
	t.Parallel()
	gpu := sysfs.PCIDevice{Address: "0000:3b:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "vfio-pci"}
	u := login(t, simcloud.Run(t, simcloud.Model{
		Hosts:  []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Devices: []sysfs.PCIDevice{gpu}}}},
		Cyborg: fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat},
	}), "admin", "admin")
	s := spawned{uuid: instance(1), provider: u.cloud.ProviderUUID("cn0"), host: "cn0"}
	allocated := func(generation any, resources map[string]int) {
		u.do("PUT", "/placement/allocations/"+s.uuid, placement, map[string]any{
			"allocations": map[string]any{s.provider: map[string]any{"resources": resources}},
			"project_id":  u.cloud.ProjectID("admin"), "user_id": "u", "consumer_generation": generation,
		}, 204, nil)
	}
	allocated(nil, map[string]int{"VCPU": 1})
	s.define(u, domainOf(t, u.bindDirectly(s, "cn0", u.createARQs("gpu")...)...))
	checkLeaks(t, u.cloud.Leaks(), []string{"guest: guest " + s.uuid + " has ARQ on provider cn0, but no allocation of PGPU there"}, strings.NewReplacer())
	allocated(1, map[string]int{"VCPU": 1, "PGPU": 1})
	u.cloud.CheckNoLeaks(t)
}

// The requests of Zed have a project only if their bind names one, and that of microversion 2.0 cannot.
func TestARequestMayHaveNoProject(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.Cyborg.Release = fakecyborg.ReleaseZed
	u := login(t, simcloud.Run(t, model), "admin", "admin")
	s := spawned{uuid: instance(1)}
	s.provider, s.host = u.claim(s.uuid, "PGPU:1", "CUSTOM_GPU_PRODUCT_ID_15F8")
	s.define(u, domainOf(t, u.bindDirectly(s, s.host, u.createARQs("gpu")...)...))
	for _, a := range u.cloud.Cyborg.ARQs() {
		if a.State != fakecyborg.StateBound || a.ProjectID != "" {
			t.Errorf("after the bind: %+v", a)
		}
	}
	u.cloud.CheckNoLeaks(t)
}

// The memory that the regions of a card share is on a provider above theirs, which has no deployable.
func TestUnusedDeviceMemoryIsALeak(t *testing.T) {
	t.Parallel()
	for provider, class := range map[string]string{"cn0_0000:24:00.0_region0": ddr, "cn0_FPGA_0000:24:00.0": hbm} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			u := login(t, simcloud.Run(t, cardWithMemory(fakecyborg.ModeNested)), "admin", "admin")
			var uuid string
			for _, p := range u.cloud.Placement.ResourceProviders() {
				if p.Name == provider {
					uuid = p.UUID
				}
			}
			u.do("PUT", "/placement/allocations/"+instance(1), placement, map[string]any{
				"allocations": map[string]any{uuid: map[string]any{"resources": map[string]int{class: 1024}}},
				"project_id":  u.cloud.ProjectID("admin"), "user_id": "u", "consumer_generation": nil,
			}, 204, nil)
			checkLeaks(t, u.cloud.Leaks(), []string{
				"allocation: consumer " + instance(1) + ", which is not a registered guest, has allocated " + class + ":1024 on " + provider,
			}, strings.NewReplacer())
			spawned{uuid: instance(1), host: "cn0"}.define(u, domainOf(t))
			checkLeaks(t, u.cloud.Leaks(), []string{
				"guest: guest " + instance(1) + " has allocated " + class + ":1024 on provider " + provider + ", but has no accelerator request on host cn0",
			}, strings.NewReplacer())
		})
	}
}

// checkLeaks compares word by word and skips words of a leak that the case does not have,
// such as unknown identifiers.
func checkLeaks(t *testing.T, got []simcloud.Leak, want []string, names *strings.Replacer) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d leaks, want %d", len(got), len(want))
	}
	for i, leak := range got {
		if leak.Subject == "" || strings.Contains(leak.Text, "\n") || strings.HasSuffix(leak.Text, ".") {
			t.Errorf("leak %d is not one sentence about a subject: %+v", i, leak)
		}
		if i >= len(want) {
			t.Errorf("leak %d: not wanted: %s: %s", i, leak.Kind, leak.Text)
			continue
		}
		words := strings.Fields(leak.Kind + ": " + leak.Text)
		for _, word := range strings.Fields(names.Replace(want[i])) {
			for len(words) > 0 && words[0] != word && words[0] != word+"," {
				words = words[1:]
			}
			if len(words) == 0 {
				t.Errorf("leak %d: got %s: %s\nwant %s\nmissing from %q", i, leak.Kind, leak.Text, names.Replace(want[i]), word)
				break
			}
			words = words[1:]
		}
	}
}

// recordingTB records failures.
type recordingTB struct {
	failed bool
	text   string
}

func (r *recordingTB) Helper() {}
func (r *recordingTB) Errorf(format string, args ...any) {
	r.failed, r.text = true, r.text+fmt.Sprintf(format, args...)
}
func (r *recordingTB) Fatalf(format string, args ...any) { r.Errorf(format, args...) }
func (r *recordingTB) Logf(string, ...any)               {}
func (r *recordingTB) Cleanup(func())                    {}
func (r *recordingTB) Context() context.Context          { return context.Background() }

func TestAFailedCheckShowsStateAndRequests(t *testing.T) {
	t.Parallel()
	u := login(t, simcloud.Run(t), "admin", "admin")
	s := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_NVIDIA_15F8")
	u.cloud.RemoveGuest(s.uuid)
	u.createARQs("fpga")
	var got recordingTB
	u.cloud.CheckNoLeaks(&got)
	for _, want := range []string{
		"simcloud: 3 leaks:\n  ARQ " + s.arq.UUID,
		"in use:\n  cn0 " + u.cloud.ProviderUUID("cn0") + "\n    MEMORY_MB:512 allocated to " + s.uuid,
		"  cn0_0000:3b:00.0 " + s.provider + "\n    PGPU:1 allocated to " + s.uuid,
		"    PCI 0000:3b:00.0 held by ARQ " + s.arq.UUID + " (Bound), instance " + s.uuid,
		"(Initial, device profile fpga) without a handle, instance none",
		"last requests:\n",
		"  PATCH /accelerator/v2/accelerator_requests: 202\n",
		"  POST /accelerator/v2/accelerator_requests: 201\n",
	} {
		if !strings.Contains(got.text, want) {
			t.Errorf("the text lacks %q:\n%s", want, got.text)
		}
	}
}

func TestRunFailsTheTestForABadModel(t *testing.T) {
	t.Parallel()
	var got recordingTB
	if cloud := simcloud.Run(&got, simcloud.Model{Hosts: []simcloud.Host{{}}}); cloud != nil || !strings.Contains(got.text, "hosts[0].name") {
		t.Errorf("got %v, %q", cloud, got.text)
	}
}
