package spawn_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A request for VGPU also matches the cards that Nova manages itself. Cyborg cannot bind them.
func TestADeviceProfileNeverUsesAProviderOfNova(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.DeviceProfiles = []simcloud.DeviceProfile{{Name: "vgpu", Groups: []map[string]string{{"resources:VGPU": "1"}}}}
	w := newWorld(t, worldOpts{model: &model})
	result := w.spawned(t, request("vgpu"))
	if !strings.Contains(string(result.Domain), "<hostdev") {
		t.Errorf("no device in the domain:\n%s", result.Domain)
	}
}

// ownRequest returns a request whose flavor has the extra specs.
func ownRequest(specs ...string) spawn.Request {
	f := plainFlavor()
	f.ExtraSpecs = map[string]string{}
	for i := 0; i < len(specs); i += 2 {
		f.ExtraSpecs[specs[i]] = specs[i+1]
	}
	return spawn.Request{Instance: instance, Flavor: f}
}

// withoutNova is the default model, in which Nova has no devices.
func withoutNova() *simcloud.Model {
	model := simcloud.DefaultModel()
	for i := range model.Hosts {
		model.Hosts[i].Nova = nil
	}
	return &model
}

// If a Cyborg card satisfied a group of the flavor itself, it would be allocated and the guest would get no device,
// because there is no accelerator request.
func TestAFlavorNeverUsesAProviderOfCyborg(t *testing.T) {
	t.Parallel()
	defaults, quirks := simcloud.DefaultModel(), withoutNova()
	quirks.Cyborg.UpstreamQuirks = true // few drivers report OWNER_CYBORG
	rocky := rockyModel(2)
	rocky.DeviceProfiles = []simcloud.DeviceProfile{{Name: "gpu", Groups: []map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1"}}}}
	ofOptions := ownRequest()
	ofOptions.Options.Groups = []requestspec.Group{{RequesterID: "own", UseSameProvider: true, Resources: map[string]int{"VGPU": 1}}}
	const byCyborg = " is served by a provider of Cyborg's, and the flavor makes no accelerator request for it (request the device with a device profile): "
	for name, tt := range map[string]struct {
		model   *simcloud.Model
		config  spawn.Config
		newest  int // microversion of Placement; 0: no limit
		request spawn.Request
		held    string // provider and class that the instance holds; empty for an error
		group   string // of the error
	}{
		"Nova's card":                        {model: &defaults, request: ownRequest("resources:VGPU", "1"), held: "cn0_pci_0000_e1_00_0 VGPU 1"},
		"Nova's card beside a profile":       {model: &defaults, request: ownRequest("resources1:VGPU", "1", requestspec.DeviceProfileKey, "gpu"), held: "cn0_pci_0000_e1_00_0 VGPU 1"},
		"no mappings, Nova's card":           {model: &defaults, newest: 31, request: ownRequest("resources:VGPU", "1"), held: "cn0_pci_0000_e1_00_0 VGPU 1"},
		"no mappings, a profile beside":      {model: &defaults, newest: 31, request: ownRequest("resources1:VGPU", "1", requestspec.DeviceProfileKey, "gpu"), held: "cn0_pci_0000_e1_00_0 VGPU 1"},
		"the unsuffixed group":               {model: withoutNova(), request: ownRequest("resources:VGPU", "1")},
		"a numbered group":                   {model: withoutNova(), request: ownRequest("resources1:VGPU", "1"), group: "1"},
		"a group beside a profile":           {model: withoutNova(), request: ownRequest("resources_x:VGPU", "1", requestspec.DeviceProfileKey, "gpu"), group: "_x"},
		"a group of the options":             {model: withoutNova(), request: ofOptions, group: "own"},
		"a driver without OWNER_CYBORG":      {model: quirks, request: ownRequest("resources:FPGA", "1")},
		"a Rocky class beside a profile":     {model: rocky, request: ownRequest("resources:CUSTOM_ACCELERATOR_FPGA", "1", requestspec.DeviceProfileKey, "gpu")},
		"no mappings":                        {model: withoutNova(), newest: 31, request: ownRequest("resources:VGPU", "1")},
		"no mappings, a group":               {model: withoutNova(), newest: 31, request: ownRequest("resources7:VGPU", "1", requestspec.DeviceProfileKey, "gpu"), group: "7"},
		"the compute node of a flat host":    {model: flatModel(), request: ownRequest("resources:PGPU", "1")},
		"a flat host whose devices are used": {model: flatModel(), config: spawn.Config{Compat: spawn.Compat{FlatProviders: true}}, request: ownRequest("resources:PGPU", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{model: tt.model, config: tt.config})
			if tt.newest > 0 {
				w.through(t, spawn.Config{PlacementOrder: true}, func(next httpTransport) httpTransport { return newestPlacement{next, tt.newest} })
			}
			result, err := w.flow.Run(t.Context(), tt.request)
			w.checkPromise(t, result, err)
			if tt.held != "" {
				if held := w.held(instance); err != nil || !slices.Contains(held, tt.held) {
					t.Errorf("got %v, held %v, want %s", err, held, tt.held)
				}
				return
			}
			var none *spawn.NoCandidatesError
			if !errors.As(err, &none) || !errors.Is(err, spawn.ErrNoCandidates) || len(none.Excluded) == 0 {
				t.Fatalf("got %v, want NoCandidatesError with what is excluded", err)
			}
			subject := "the flavor"
			if tt.group != "" {
				subject = "group " + tt.group
			}
			if none.Excluded[0].Group != tt.group || !strings.Contains(err.Error(), " is excluded: "+subject+byCyborg+none.Excluded[0].Provider) {
				t.Errorf("got error %v", err)
			}
			if len(w.puts()) > 0 {
				t.Errorf("claims %v", w.puts())
			}
		})
	}
}

// novaOwnedOnly is a cloud whose only vGPUs are Nova's.
func novaOwnedOnly() *simcloud.Model {
	return &simcloud.Model{
		Hosts: []simcloud.Host{{Name: "cn0", Nova: &simcloud.Nova{VGPUs: []simcloud.NovaDevice{{Address: "0000:41:00.0"}}}}},
		DeviceProfiles: []simcloud.DeviceProfile{
			{Name: "vgpu", Groups: []map[string]string{{"resources:VGPU": "1"}}},
		},
	}
}

// novaTwin creates a Nova provider for the card of a Cyborg provider, as nova-compute does when its configuration
// names the card later. It returns the name.
func (w *world) novaTwin(t *testing.T, provider string) string {
	t.Helper()
	p, err := w.cloud.Placement.ResourceProvider(provider)
	settled(t, err)
	host, address, _ := strings.Cut(p.Name, "_")
	twin := placementsim.ResourceProvider{
		Name: host + "_pci_" + strings.NewReplacer(":", "_", ".", "_").Replace(address), Parent: p.Parent,
		Traits: []string{"OWNER_NOVA"}, Inventories: map[string]placementsim.Inventory{"CUSTOM_PCI_10DE_1EB8": {Total: 1}},
	}
	_, err = w.cloud.Placement.CreateProvider(twin)
	settled(t, err)
	return twin.Name
}

// checkOwners checks that an error names both owners.
func checkOwners(t *testing.T, err error, twin, provider string) {
	t.Helper()
	var conflict *spawn.OwnerConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, spawn.ErrOwnerConflict) {
		t.Fatalf("got error %v, want an OwnerConflictError", err)
	}
	if !strings.Contains(conflict.Owners[0], twin) || !strings.Contains(conflict.Owners[1], provider) || conflict.Address != "0000:10:00.0" {
		t.Errorf("got %+v, want 0000:10:00.0 of %s and %s", conflict, twin, provider)
	}
	if n := strings.Count(err.Error(), spawn.ErrOwnerConflict.Error()); n != 1 {
		t.Errorf("the conflict stands %d times in %v", n, err)
	}
}

// One card of the host has two owners, and the other was claimed by another client. The error has both reasons.
func TestAClaimThatFailsForTwoReasonsNamesBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(1, 2)})
	a := w.beforeClaim(t, "gpu")
	first := a.Chosen.Mappings["device_profile_0"][0]
	a.Unwind(t.Context())
	twin := w.novaTwin(t, first)
	a = w.beforeClaim(t, "gpu")
	w.rival(t, a, a.Chosen.Root, 0)
	err := a.Claim(t.Context())
	checkOwners(t, err, twin, first)
	want := "claim refused on cn0 (2 candidates): device with two owners: 0000:10:00.0 belongs to Nova (resource provider " + twin +
		") and to Cyborg (resource provider " + first + "); placement: PUT allocations: 409 Conflict: "
	if !errors.Is(err, spawn.ErrClaim) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want %s...", err, want)
	}
	a.Unwind(t.Context())
}

// A card that Nova also offers is not claimed. Another card of the host is claimed if there is one.
func TestACardThatNovaOffersLaterIsNotClaimed(t *testing.T) {
	t.Parallel()
	for gpus, want := range map[int]error{1: spawn.ErrOwnerConflict, 2: nil} {
		w := newWorld(t, worldOpts{model: raceModel(1, gpus)})
		a := w.beforeClaim(t, "gpu")
		first := a.Chosen.Mappings["device_profile_0"][0]
		twin := w.novaTwin(t, first)
		a.Unwind(t.Context())
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if !errors.Is(err, want) {
			t.Fatalf("%d GPUs: got error %v, want %v", gpus, err, want)
		}
		if want != nil {
			checkOwners(t, err, twin, first)
			if !errors.Is(err, spawn.ErrClaim) || len(w.puts()) > 0 {
				t.Errorf("got error %v and claims %v, want ErrClaim and none", err, w.puts())
			}
		} else if result.ARQs[0].DeviceRPUUID == first {
			t.Error("the card with two owners was assigned")
		}
		w.checkPromise(t, result, err)
	}
}

// If the provider tree of a host with Nova devices cannot be read, their cards are unknown.
func TestAHostWhoseTreeCannotBeReadIsNotChosen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := raceModel(1, 1)
		model.Hosts[0].Nova = &simcloud.Nova{VGPUs: []simcloud.NovaDevice{{Address: "0000:41:00.0"}}}
		w := newWorld(t, worldOpts{model: model})
		w.fail(t, fault.Rule{Operation: fault.ResourceProviderList, Action: fault.Status, Status: 403, Times: -1})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("got error %v, want the refusal", err)
		}
		w.checkPromise(t, result, err)
	})
}

// Cyborg notices the second owner after the candidates were listed, and reserves the card. The claim is refused.
func TestARefusedClaimOfACardThatNovaOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(1, 1)})
	a := w.beforeClaim(t, "gpu")
	provider := a.Chosen.Mappings["device_profile_0"][0]
	twin := w.novaTwin(t, provider)
	settled(t, w.cloud.Placement.SetInventory(provider, map[string]placementsim.Inventory{"PGPU": {Total: 1, Reserved: 1}}))
	err := a.Claim(t.Context())
	checkOwners(t, err, twin, provider)
	if !errors.Is(err, spawn.ErrClaim) {
		t.Errorf("got error %v, want ErrClaim as well", err)
	}
	a.Unwind(t.Context())
}
