package spawn_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// flatModel has two hosts whose devices are on the compute node's provider. The first node also has an inventory of
// encrypted memory.
func flatModel() *simcloud.Model {
	model := raceModel(2, 2)
	model.Cyborg.PlacementMode = fakecyborg.ModeFlat
	return model
}

const classEncryption = "MEM_ENCRYPTION_CONTEXT"

// encrypt adds an inventory of encrypted memory to the nodes of the hosts.
func (w *world) encrypt(t *testing.T) {
	t.Helper()
	for _, host := range w.cloud.HostNames() {
		node, err := w.cloud.Placement.ResourceProvider(w.cloud.ProviderUUID(host))
		settled(t, err)
		node.Inventories[classEncryption] = placementsim.Inventory{Total: 4}
		settled(t, w.cloud.Placement.SetInventory(node.UUID, node.Inventories))
	}
}

// encrypted makes a flavor request encrypted memory.
func encrypted(flavor requestspec.Flavor) requestspec.Flavor {
	flavor.ExtraSpecs = maps.Clone(flavor.ExtraSpecs)
	if flavor.ExtraSpecs == nil {
		flavor.ExtraSpecs = map[string]string{}
	}
	flavor.ExtraSpecs["resources:"+classEncryption] = "1"
	return flavor
}

// Most upstream drivers report no trait with the owner, so after the deletion of the ARQs the providers are known
// only from Cyborg's list of deployables. On a flat host Cyborg does not own the other resources that the instance
// holds on the compute node.
func TestARunningInstanceReleasesItsDevices(t *testing.T) {
	t.Parallel()
	flat := spawn.Config{PlacementOrder: true, Compat: spawn.Compat{FlatProviders: true}}
	for name, tt := range map[string]struct {
		model    *simcloud.Model
		config   spawn.Config
		profile  string
		unlisted bool // Cyborg no longer lists the devices
	}{
		"OWNER_CYBORG":            {model: quirksModel(), profile: "mixed"},
		"no trait":                {model: quirksModel(), profile: "fake"},
		"flat host":               {model: flatModel(), config: flat, profile: "two"},
		"flat host, devices gone": {model: flatModel(), config: flat, profile: "two", unlisted: true},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: tt.model, config: tt.config})
			w.encrypt(t)
			_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: encrypted(plainFlavor())})
			settled(t, err)
			held := w.held(instance)
			_, err = w.flow.AddDevices(t.Context(), request(tt.profile))
			settled(t, err)
			if tt.unlisted {
				w.through(t, tt.config, func(next http.RoundTripper) http.RoundTripper {
					return &rewrite{next: next, method: http.MethodGet, path: "/deployables", change: func(int, []byte) []byte { return []byte(`{"deployables":[]}`) }}
				})
			} else {
				w.releaseWithoutPlacement(t)
			}
			for range 2 {
				settled(t, w.flow.ReleaseDevices(t.Context(), instance))
				if diff := cmp.Diff(held, w.held(instance)); diff != "" || len(w.cloud.Cyborg.ARQs()) > 0 {
					t.Errorf("%d ARQs; allocations (-want +got):\n%s", len(w.cloud.Cyborg.ARQs()), diff)
				}
			}
		})
	}
}

// releaseWithoutPlacement deletes the ARQs without their part of the allocation.
func (w *world) releaseWithoutPlacement(t *testing.T) {
	t.Helper()
	w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 403, Times: -1})
	wantKinds(t, leftovers(w.flow.ReleaseDevices(t.Context(), instance)), spawn.LeftoverAllocation)
	w.cloud.Faults().Clear()
}

// If neither Cyborg's devices nor the profile of an ARQ show which resources to release, none are released.
func TestDevicesOfAnUnknownClassAreNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: flatModel(), config: spawn.Config{Compat: spawn.Compat{FlatProviders: true}}})
		_, err := w.flow.Run(t.Context(), request("two"))
		settled(t, err)
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			next = &rewrite{next: next, method: http.MethodGet, path: "/device_profiles", change: func(int, []byte) []byte { return []byte(`{"device_profiles":[]}`) }}
			return &rewrite{next: next, method: http.MethodGet, path: "/deployables", change: func(int, []byte) []byte { return []byte(`{"deployables":[]}`) }}
		})
		held, arqs := w.held(instance), w.cloud.Cyborg.ARQs()
		err = w.flow.ReleaseDevices(t.Context(), instance)
		if !errors.Is(err, spawn.ErrProfile) {
			t.Errorf("got %v, want ErrProfile", err)
		}
		wantKinds(t, leftovers(err), spawn.LeftoverARQs, spawn.LeftoverAllocation)
		if diff := cmp.Diff(held, w.held(instance)); diff != "" || len(w.cloud.Cyborg.ARQs()) != len(arqs) {
			t.Errorf("%d ARQs of %d; allocations (-before +after):\n%s", len(w.cloud.Cyborg.ARQs()), len(arqs), diff)
		}
	})
}

// An evacuation that fails after the deletion of the old ARQs releases their devices, and no other resources of a
// flat host.
func TestAFailedEvacuationKeepsTheRestOfAFlatHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: flatModel(), config: spawn.Config{Compat: spawn.Compat{FlatProviders: true}}})
		s.encrypt(t)
		req := request("two")
		req.Flavor = encrypted(req.Flavor)
		i := s.launchOn(t, "cn0", req)
		want := slices.DeleteFunc(s.held(instance), func(held string) bool { return strings.Contains(held, "PGPU") })
		s.loseHost(t, i.Host)
		s.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 403, Times: -1})
		if _, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{}); !errors.Is(err, cyborgclient.ErrForbidden) {
			t.Fatalf("got %v, want the refusal of the create", err)
		}
		checkDiff(t, "allocations (-want +got)", want, s.held(instance))
	})
}

const sharedMemory = "CUSTOM_ACCELERATOR_MEMORY_HBM"

// cardModel has hosts with a card of two regions, which share memory on the provider of the card. The profile card
// requests it in a separate group.
func cardModel(hosts int) *simcloud.Model {
	model := simcloud.ScaleModel(hosts, 0)
	model.Cyborg.PlacementMode = fakecyborg.ModeNested
	at := func(function string) driver.Info {
		return driver.Info{"domain": "0000", "bus": "41", "device": "00", "function": function}
	}
	for i, host := range model.Hosts {
		card := driver.Device{
			Type: driver.TypeFPGA, Vendor: "8086", ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: at("0")},
			Resources: map[string]int{sharedMemory: 4096},
		}
		for _, region := range []string{"1", "2"} {
			card.Deployables = append(card.Deployables, driver.Deployable{
				Name: host.Name + "_0000:41:00.0_region" + region, NumAccelerators: 1, DriverName: "intel", Class: "FPGA",
				AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: at(region)}},
			})
		}
		model.Hosts[i].Devices = []driver.Device{card}
	}
	model.DeviceProfiles = []simcloud.DeviceProfile{{Name: "card", Groups: []map[string]string{{"resources:FPGA": "1"}, {"resources:" + sharedMemory: "1024"}}}}
	return &model
}

// cardName is part of the names of the providers of a card and of its regions.
const cardName = "0000:41:00.0"

func TestTheMemoryThatRegionsShareIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: cardModel(1)})
		_, err := w.flow.Run(t.Context(), request("card"))
		settled(t, err)
		held := w.held(instance)
		want := slices.DeleteFunc(slices.Clone(held), func(held string) bool { return strings.Contains(held, cardName) })
		if len(held) != len(want)+2 {
			t.Fatalf("the instance holds %v", held)
		}
		w.releaseWithoutPlacement(t)
		settled(t, w.flow.ReleaseDevices(t.Context(), instance))
		checkDiff(t, "allocations (-want +got)", want, w.held(instance))
	})
}

// A failed evacuation releases the memory together with the region, and keeps it if the ARQ remains.
func TestAFailedEvacuationReleasesTheMemoryThatRegionsShare(t *testing.T) {
	t.Parallel()
	for operation, kept := range map[sim.OperationName]bool{fault.ARQCreate: false, fault.ARQDelete: true} {
		bubble(t, string(operation), func(t *testing.T) {
			s := newSite(t, worldOpts{model: cardModel(2)})
			i := s.launchOn(t, "cn0", request("card"))
			want := s.held(instance)
			if !kept {
				want = slices.DeleteFunc(want, func(held string) bool { return strings.Contains(held, cardName) })
			}
			s.loseHost(t, i.Host)
			s.fail(t, fault.Rule{Operation: operation, Action: fault.Status, Status: 403, Times: -1})
			if _, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{}); !errors.Is(err, cyborgclient.ErrForbidden) {
				t.Fatalf("got %v, want the refusal", err)
			}
			checkDiff(t, "allocations (-want +got)", want, s.held(instance))
		})
	}
}

func TestARunningInstanceThatHoldsNothingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	_, err := w.flow.AddDevices(t.Context(), request("gpu"))
	if !errors.Is(err, spawn.ErrRequest) || len(w.cloud.Placement.Allocations()) > 0 {
		t.Errorf("err = %v, allocations %v", err, w.cloud.Placement.Allocations())
	}
	w.checkPromise(t, nil, err)
}

// The list of all deployables of a large cloud is long, and an operation on one instance needs only a few.
func TestAnOperationListsTheDeployablesOfItsInstanceOnly(t *testing.T) {
	t.Parallel()
	release := func(t *testing.T, s *site, i spawn.Instance) error { return s.flow.ReleaseDevices(t.Context(), i.UUID) }
	for name, run := range map[string]func(*testing.T, *site, spawn.Instance) error{
		"release devices": release,
		"release memory":  release, // of a card, whose provider has no deployable
		"evacuate": func(t *testing.T, s *site, i spawn.Instance) error {
			s.loseHost(t, i.Host)
			_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
			return err
		},
		"program": func(t *testing.T, s *site, i spawn.Instance) error {
			_, err := s.flow.Program(t.Context(), spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: imageGzip})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			model, profile := programModel(), "gpu"
			switch name {
			case "program":
				profile = "fpga"
			case "release memory":
				model, profile = cardModel(1), "card"
			}
			s := newSite(t, worldOpts{model: model})
			i := s.spawn(t, profile)
			settled(t, run(t, s, i))
			lists := 0
			for _, r := range s.cloud.Requests() {
				if r.Operation != fault.DeployableList {
					continue
				}
				if lists++; !strings.Contains(r.Query, "name") {
					t.Errorf("%s: the query of a list is %q", name, r.Query)
				}
			}
			if lists == 0 {
				t.Errorf("%s: no list of deployables", name)
			}
		})
	}
}

// rename gives a resource provider another name in Placement.
func (w *world) rename(t *testing.T, provider, name string) {
	t.Helper()
	login := w.cloud.Provider(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.cloud.URL()+"/placement/resource_providers/"+provider, strings.NewReader(`{"name":"`+name+`"}`))
	settled(t, err)
	req.Header.Set("X-Auth-Token", login.Token())
	req.Header.Set("Content-Type", "application/json")
	answer, err := login.HTTPClient.Do(req)
	settled(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("rename provider %s: %s", provider, answer.Status)
	}
}

// Cyborg finds deployables by name, and operators rename providers.
func TestADeviceWhoseProviderWasRenamedIsKnown(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*site, spawn.Instance) error{
		"ReleaseDevices": func(s *site, i spawn.Instance) error { return s.flow.ReleaseDevices(t.Context(), i.UUID) },
		"Reconcile": func(s *site, i spawn.Instance) error {
			s.cloud.RemoveGuest(i.UUID)
			_, err := s.flow.Reconcile(t.Context(), s.freeing())
			return err
		},
		"a second device": func(s *site, _ spawn.Instance) error {
			if _, err := s.flow.AddDevices(t.Context(), request("gpu")); !errors.Is(err, spawn.ErrRequest) {
				return fmt.Errorf("error %w, want ErrRequest", err)
			}
			return nil
		},
	} {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		arq := s.arqs(t, i)[0]
		s.rename(t, arq.DeviceRPUUID, "gpu-rack-7")
		settled(t, s.cloud.Cyborg.DeleteARQs(t.Context(), arq.UUID)) // as after a release that failed half-way
		if err := do(s, i); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		held := slices.ContainsFunc(s.held(i.UUID), func(line string) bool { return strings.Contains(line, "PGPU") })
		if held != (name == "a second device") {
			t.Errorf("%s: the instance holds %v", name, s.held(i.UUID))
		}
	}
}

// The ARQs that remain keep their devices, and the allocation keeps them, too.
func TestReleaseDevicesNamesAllThatItLeaves(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rule fault.Rule
		want map[spawn.LeftoverKind]int
	}{
		"ARQs that cannot be deleted": {
			fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: http.StatusForbidden, Times: -1},
			map[spawn.LeftoverKind]int{spawn.LeftoverARQ: 1, spawn.LeftoverAllocation: 1},
		},
		"an allocation that cannot be read": {
			fault.Rule{Operation: fault.AllocationsGet, Action: fault.Status, Status: http.StatusForbidden, Times: -1},
			map[spawn.LeftoverKind]int{spawn.LeftoverARQs: 1, spawn.LeftoverAllocation: 1},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "gpu")
			settled(t, s.cloud.Faults().Set(tt.rule))
			err := s.flow.ReleaseDevices(t.Context(), i.UUID)
			if diff := cmp.Diff(tt.want, kindsOf(leftovers(err))); diff != "" || !errors.Is(err, spawn.ErrLeftover) {
				t.Errorf("%s: error %v; leftovers (-want +got):\n%s", name, err, diff)
			}
			s.cloud.Faults().Clear()
			settled(t, s.flow.ReleaseDevices(t.Context(), i.UUID))
			if held := s.held(i.UUID); slices.ContainsFunc(held, func(line string) bool { return strings.Contains(line, "PGPU") }) {
				t.Errorf("%s: the instance holds %v after the second call", name, held)
			}
		})
	}
}
