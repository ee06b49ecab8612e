package spawn_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

const rockyGzipTrait = "CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B"

// rockyModel has one host with FPGAs of the specification's class and an image
// of the function gzip.
func rockyModel(fpgas int) *simcloud.Model {
	host := simcloud.Host{Name: "cn0", Sysfs: &simcloud.Sysfs{}, Drivers: &builtin.Config{
		EnabledDrivers: []string{builtin.IntelFPGA}, Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling},
	}}
	for i := range fpgas {
		host.Sysfs.Devices = append(host.Sysfs.Devices, sysfs.PCIDevice{
			Address: fmt.Sprintf("0000:%d1:00.0", i), Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
			FPGA: &sysfs.FPGA{Dev: i, InterfaceID: "9926ab6d6c925a68aabca7d84c545738", Ports: []sysfs.FPGAPort{{Number: i}}},
		})
	}
	return &simcloud.Model{
		Hosts: []simcloud.Host{host}, DeviceProfiles: []simcloud.DeviceProfile{}, Flavors: []simcloud.Flavor{},
		Images: []simcloud.Image{{Name: "gzip", Properties: map[string]string{"accel:function_id": gzipID}, Data: fpgaImage(gzipID)}},
	}
}

// rockyFlavor is the specification's example of a function programmed on demand.
func rockyFlavor() requestspec.Flavor {
	return requestspec.Flavor{Name: "afaas", VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{
		"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required", "trait:CUSTOM_PROGRAMMABLE": "required",
		"function:" + rockyGzipTrait: "required",
	}}
}

func TestARockyFlavorGetsItsDeviceIntoTheXML(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: rockyModel(2), config: spawn.Config{RockyFlavors: spawn.RockyFlavors{Convert: true, Create: true}}})
	original := rockyFlavor()
	result := w.spawned(t, spawn.Request{Instance: instance, Flavor: original})
	if len(result.ARQs) != 1 || len(result.Devices) != 1 || result.Devices[0].PCI == nil || !strings.Contains(string(result.Domain), "<hostdev") {
		t.Errorf("got %d ARQs, devices %v", len(result.ARQs), result.Devices)
	}
	p, err := w.cloud.Placement.ResourceProvider(result.ARQs[0].DeviceRPUUID)
	if err != nil || !strings.Contains(strings.Join(p.Traits, " "), rockyGzipTrait) {
		t.Errorf("the region was not programmed: traits %v, %v", p.Traits, err)
	}
	if got := result.Trace[0].Decision; !strings.HasPrefix(got, "created for the Rocky flavor: rocky-afaas-") {
		t.Errorf("decision %q", got)
	}
	if len(original.ExtraSpecs) != 4 {
		t.Errorf("the caller's flavor changed: %v", original.ExtraSpecs)
	}
	second, err := w.flow.Run(t.Context(), spawn.Request{Instance: secondInstance, Flavor: original})
	if err != nil || !strings.HasPrefix(second.Trace[0].Decision, "of the Rocky flavor: ") {
		t.Errorf("second spawn: %v", err)
	}
	w.checkPromise(t, second, err)
}

func TestParallelSpawnsOfOneRockyFlavorMakeOneProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: rockyModel(4), spread: true, config: spawn.Config{
		RockyFlavors: spawn.RockyFlavors{Convert: true, Create: true},
	}})
	results, errs := make([]*spawn.Result, 4), make([]error, 4)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			for range 10 {
				uuid := strings.TrimSuffix(instance, "1") + string("1234"[i])
				results[i], errs[i] = w.flow.Run(t.Context(), spawn.Request{Instance: uuid, Flavor: rockyFlavor()})
				if !errors.Is(errs[i], spawn.ErrClaim) {
					return
				}
			}
		})
	}
	group.Wait()
	for i := range results {
		settled(t, errs[i])
		w.define(t, results[i])
	}
	w.cloud.CheckNoLeaks(t)
	if profiles := w.cloud.Cyborg.DeviceProfiles(); len(profiles) != 1 {
		t.Errorf("%d device profiles, want 1", len(profiles))
	}
}

func TestRockyFlavorsWithoutConversionOrProfile(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, config spawn.RockyFlavors, before func(*world), flavor requestspec.Flavor) (*world, *spawn.Result, error) {
		t.Helper()
		w := newWorld(t, worldOpts{model: rockyModel(1), config: spawn.Config{RockyFlavors: config}})
		if before != nil {
			before(w)
		}
		result, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: flavor})
		w.cloud.Faults().Clear()
		w.checkPromise(t, result, err)
		return w, result, err
	}
	t.Run("not converted: refused before anything is claimed", func(t *testing.T) {
		t.Parallel()
		w, _, err := run(t, spawn.RockyFlavors{}, nil, rockyFlavor())
		if !errors.Is(err, spawn.ErrProfile) || strings.Count(fmt.Sprint(err), " && ") != 2 || !strings.Contains(err.Error(), "set rocky_flavors.convert") {
			t.Errorf("got %v, want ErrProfile with the option and three commands", err)
		}
		if writes := w.puts(); len(writes) > 0 {
			t.Errorf("claims %v", writes)
		}
	})
	t.Run("not created: the error has the commands", func(t *testing.T) {
		t.Parallel()
		w, _, err := run(t, spawn.RockyFlavors{Convert: true}, nil, rockyFlavor())
		if !errors.Is(err, spawn.ErrProfile) || strings.Count(fmt.Sprint(err), " && ") != 2 ||
			!strings.Contains(err.Error(), "openstack accelerator device profile create rocky-afaas-") {
			t.Fatalf("got %v, want ErrProfile with three commands", err)
		}
		rocky, _, err := requestspec.FromRocky(rockyFlavor(), false)
		settled(t, err)
		p := rocky.Profile
		_, err = w.cyborg.CreateDeviceProfile(t.Context(), cyborgclient.CreateDeviceProfileOpts{Name: p.Name, Groups: p.Groups})
		settled(t, err)
		w.spawned(t, spawn.Request{Instance: instance, Flavor: rockyFlavor()})
	})
	t.Run("a profile of that name with other groups", func(t *testing.T) {
		t.Parallel()
		rocky, _, err := requestspec.FromRocky(rockyFlavor(), false)
		settled(t, err)
		_, _, err = run(t, spawn.RockyFlavors{Convert: true, Create: true}, func(w *world) {
			opts := cyborgclient.CreateDeviceProfileOpts{Name: rocky.Profile.Name, Groups: []map[string]string{{"resources:PGPU": "1"}}}
			_, err := w.cyborg.CreateDeviceProfile(t.Context(), opts)
			settled(t, err)
		}, rockyFlavor())
		if !errors.Is(err, spawn.ErrProfile) || !strings.Contains(err.Error(), "differs from what its flavor needs") {
			t.Errorf("got %v", err)
		}
	})
	bad, unknown := rockyFlavor(), rockyFlavor()
	bad.ExtraSpecs["function_name:x"] = "required"
	delete(unknown.ExtraSpecs, "function:"+rockyGzipTrait)
	unknown.ExtraSpecs["function:CUSTOM_FPGA_FUNCTION_INTEL_00000000_A4A3_C413_F89E_433683F9040B"] = "required"
	replyLost := fault.Rule{Operation: fault.DeviceProfileCreate, When: fault.After, Action: fault.Drop}
	for name, tt := range map[string]struct {
		flavor requestspec.Flavor
		rules  []fault.Rule
		want   []error // none: success
		text   string
	}{
		"the reply of the creation is lost": {flavor: rockyFlavor(), rules: []fault.Rule{replyLost}},
		"the reply of the creation is lost, and what it did is unknown": {rockyFlavor(), []fault.Rule{
			replyLost, {Operation: fault.DeviceProfileList, Nth: 2, Action: fault.Status, Status: 403},
		}, []error{cyborgclient.ErrForbidden}, ""}, // from the list
		"the creation is lost": {rockyFlavor(), []fault.Rule{{Operation: fault.DeviceProfileCreate, Action: fault.Drop}},
			[]error{spawn.ErrProfile, cyborgclient.ErrReplyLost}, ""},
		"the creation is refused": {rockyFlavor(), []fault.Rule{{Operation: fault.DeviceProfileCreate, Action: fault.Status, Status: 403}},
			[]error{spawn.ErrProfile, cyborgclient.ErrForbidden}, "of flavor afaas"},
		"a flavor that cannot be converted": {bad, nil, []error{spawn.ErrRequest}, `"function_name:x"`},
		"no image has the function":         {unknown, nil, []error{spawn.ErrNotBound}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, result, err := run(t, spawn.RockyFlavors{Convert: true, Create: true}, func(w *world) { w.fail(t, tt.rules...) }, tt.flavor)
			if tt.want == nil && (err != nil || len(result.ARQs) != 1) {
				t.Errorf("got %v, want success", err)
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v, want %v and %q", err, want, tt.text)
				}
			}
			if errors.Is(err, spawn.ErrProfile) != slices.Contains(tt.want, spawn.ErrProfile) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// Later operations know the accelerators of an instance with a Rocky flavor, with the flavor of the result and with
// the original one.
func TestOperationsKnowTheAcceleratorsOfARockyFlavor(t *testing.T) {
	t.Parallel()
	for _, original := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: rockyModel(2), config: spawn.Config{RockyFlavors: spawn.RockyFlavors{Convert: true, Create: true}}})
			req := spawn.Request{Instance: instance, Flavor: rockyFlavor()}
			i := s.spawnOf(t, req)
			if original {
				i.Flavor = req.Flavor
			}
			if err := spawn.Permit(spawn.OpResize, i); err == nil {
				t.Error("a resize is permitted")
			}
			bare := domainxml.NewDomain(domainxml.DomainOpts{Name: "x", UUID: instance, MemoryMiB: 512, VCPUs: 1})
			settled(t, s.ops.HardReboot(t.Context(), i, bare))
			if !strings.Contains(s.guests.runs[placeOf(i)], "<hostdev") {
				t.Error("after a reboot the guest has no device")
			}
			i.ARQs = nil // those that Cyborg lists
			settled(t, s.ops.Delete(t.Context(), i))
			s.nothingHeld(t)
		})
	}
}

// convertedOnLostHost returns an instance with a converted Rocky flavor, on a host that is down.
func convertedOnLostHost(t *testing.T) (*site, spawn.Instance) {
	t.Helper()
	model := rockyModel(1)
	other := rockyModel(1).Hosts[0]
	other.Name = "cn1"
	model.Hosts = append(model.Hosts, other)
	s := newSite(t, worldOpts{model: model, config: spawn.Config{RockyFlavors: spawn.RockyFlavors{Convert: true, Create: true}}})
	req := spawn.Request{Instance: instance, Flavor: rockyFlavor(), Order: onHost(s.world, "cn0")}
	i := s.spawnOf(t, req)
	i.Flavor = req.Flavor
	s.loseHost(t, "cn0")
	return s, i
}

// An instance keeps its Rocky flavor. Its ARQs show that the flavor was converted.
func TestARockyFlavorThatIsConvertedMovesItsAccelerator(t *testing.T) {
	t.Parallel()
	bubble(t, "evacuate", func(t *testing.T) {
		s, i := convertedOnLostHost(t)
		moved, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		if moved.Host != "cn1" || len(moved.ARQs) != len(i.ARQs) || !strings.Contains(string(moved.Domain), "<hostdev") {
			t.Errorf("on host %s with %d ARQs:\n%s", moved.Host, len(moved.ARQs), moved.Domain)
		}
		if held := s.cloud.Placement.Usage(s.cloud.ProviderUUID("cn0"), "VCPU"); held > 0 {
			t.Errorf("%d VCPU of the lost host", held)
		}
		for _, arq := range s.cloud.Cyborg.ARQs() {
			if arq.Hostname != "cn1" {
				t.Errorf("ARQ %s remains on host %s", arq.UUID, arq.Hostname)
			}
		}
	})
}
