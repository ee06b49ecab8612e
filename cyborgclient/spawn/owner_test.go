package spawn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
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
