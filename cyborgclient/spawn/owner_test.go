package spawn_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A plain VGPU fits the cards that Nova divides itself, too. Cyborg could never
// bind one of those.
func TestADeviceProfileNeverUsesAProviderOfNova(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.DeviceProfiles = []simcloud.DeviceProfile{{Name: "vgpu", Groups: []map[string]string{{"resources:VGPU": "1"}}}}
	w := newWorld(t, worldOpts{model: &model})
	result, err := w.flow.Run(t.Context(), request("vgpu"))
	if err != nil {
		t.Fatal(err)
	}
	w.checkPromise(t, result, err)
	if !strings.Contains(string(result.Domain), "<hostdev") {
		t.Errorf("no device in the domain:\n%s", result.Domain)
	}
}

func TestNoCandidatesWhereOnlyNovaHasRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: novaOwnedOnly()})
	result, err := w.flow.Run(t.Context(), request("vgpu"))
	var none *spawn.NoCandidatesError
	if !errors.As(err, &none) || !errors.Is(err, spawn.ErrNoCandidates) || len(none.NovaOwnedProviders) != 1 || !strings.Contains(err.Error(), none.NovaOwnedProviders[0]) {
		t.Fatalf("error: %v, want NoCandidatesError that names Nova's provider", err)
	}
	w.checkPromise(t, result, err)
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

// novaTwin makes a provider of Nova's for the card of a provider of Cyborg's, as
// nova-compute does when its configuration names the card later. It returns its name.
func (w *world) novaTwin(t *testing.T, provider string) string {
	t.Helper()
	p, err := w.cloud.Placement.ResourceProvider(provider)
	if err != nil {
		t.Fatal(err)
	}
	host, address, _ := strings.Cut(p.Name, "_")
	twin := placementsim.ResourceProvider{
		Name: host + "_pci_" + strings.NewReplacer(":", "_", ".", "_").Replace(address), Parent: p.Parent,
		Traits: []string{"OWNER_NOVA"}, Inventories: map[string]placementsim.Inventory{"CUSTOM_PCI_10DE_1EB8": {Total: 1}},
	}
	if _, err := w.cloud.Placement.CreateProvider(twin); err != nil {
		t.Fatal(err)
	}
	return twin.Name
}

// checkOwners wants an error that names both owners.
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

// One card of the host has two owners, the other was taken meanwhile: the error has both
// reasons.
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

// A card that Nova offers, too, is not claimed. Another one of the host is, if there is
// one.
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

// Nova's other cards in the tree are no conflict.
func TestCardsOfNovaBesideCyborgs(t *testing.T) {
	t.Parallel()
	model := raceModel(1, 1)
	model.Hosts[0].Nova = &simcloud.Nova{VGPUs: []simcloud.NovaDevice{{Address: "0000:41:00.0"}}}
	w := newWorld(t, worldOpts{model: model})
	result, err := w.flow.Run(t.Context(), request("gpu"))
	if err != nil {
		t.Fatal(err)
	}
	w.checkPromise(t, result, err)
}

// Without the tree of a host with devices of Nova's their cards are not known.
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

// Cyborg has noticed the second owner after the candidates were listed, and reserved the
// card: the claim is refused.
func TestARefusedClaimOfACardThatNovaOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(1, 1)})
	a := w.beforeClaim(t, "gpu")
	provider := a.Chosen.Mappings["device_profile_0"][0]
	twin := w.novaTwin(t, provider)
	if err := w.cloud.Placement.SetInventory(provider, map[string]placementsim.Inventory{"PGPU": {Total: 1, Reserved: 1}}); err != nil {
		t.Fatal(err)
	}
	err := a.Claim(t.Context())
	checkOwners(t, err, twin, provider)
	if !errors.Is(err, spawn.ErrClaim) {
		t.Errorf("got error %v, want ErrClaim as well", err)
	}
	a.Unwind(t.Context())
}

// Cyborg has noticed it after the claim: the bind is refused or fails.
func TestARefusedBindOfACardThatNovaOffers(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]fault.Rule{
		"refused": {Operation: fault.ARQBind, Action: fault.Status, Status: 404},
		"failed":  {Operation: fault.MdevCreate, Action: fault.Status},
	} {
		synctest.Test(t, func(t *testing.T) {
			model, profile := raceModel(1, 1), "gpu"
			if name == "failed" {
				model, profile = slowModel(10*time.Second), "vgpu"
				model.Hosts = model.Hosts[:1]
			}
			w := newWorld(t, worldOpts{model: model})
			a := w.beforeClaim(t, profile)
			if err := walk(t.Context(), a.Claim, a.CreateARQs, a.Match); err != nil {
				t.Fatal(err)
			}
			provider := a.Bindings[0].DeviceRP
			twin := w.novaTwin(t, provider)
			w.fail(t, rule)
			err := walk(t.Context(), a.Bind, a.WaitBound)
			var conflict *spawn.OwnerConflictError
			if !errors.As(err, &conflict) || !strings.Contains(conflict.Owners[0], twin) || !strings.Contains(conflict.Owners[1], provider) {
				t.Errorf("%s: got error %v, want a conflict of %s and %s", name, err, twin, provider)
			}
			if name == "refused" && !errors.Is(err, cyborgclient.ErrNotFound) || name == "failed" && !errors.Is(err, spawn.ErrNotBound) {
				t.Errorf("%s: got error %v, want its cause as well", name, err)
			}
			if _, leftovers := a.Unwind(t.Context()); len(leftovers) > 0 {
				t.Error(leftovers)
			}
			w.cloud.CheckNoLeaks(t)
		})
	}
}

// A card in use whose second owner Cyborg's agent notices keeps its guests, and gets no
// more.
func TestACardInUseThatNovaOffersLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := simcloud.DefaultModel()
		model.Hosts = model.Hosts[:1]
		w := newWorld(t, worldOpts{model: &model})
		result, err := w.flow.Run(t.Context(), request("vgpu"))
		if err != nil {
			t.Fatal(err)
		}
		twin := w.novaTwin(t, result.ARQs[0].DeviceRPUUID)
		time.Sleep(10 * time.Minute) // known devices are compared with Nova's so often
		for range 2 {
			if err := w.cloud.Cyborg.Report(t.Context()); err == nil || !strings.Contains(err.Error(), twin) {
				t.Errorf("the report says %v, want %s", err, twin)
			}
		}
		w.checkPromise(t, result, nil)
		second := request("vgpu")
		second.Instance = secondInstance
		if _, err := w.flow.Run(t.Context(), second); !errors.Is(err, spawn.ErrNoCandidates) {
			t.Errorf("a second guest: got error %v, want ErrNoCandidates", err)
		}
		if err := w.flow.Release(t.Context(), instance); err != nil {
			t.Fatal(err)
		}
		w.cloud.RemoveGuest(instance)
		w.cloud.CheckNoLeaks(t)
	})
}
