package spawn_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// An instance is spawned and deleted with each release of Placement, and with a Nova that does or does not report
// OWNER_NOVA.
func TestAnInstanceLivesWithEveryPlacementAndNova(t *testing.T) {
	t.Parallel()
	models := map[string]simcloud.Model{"Nova 26": {NovaRelease: "26"}, "Nova 33": {NovaRelease: "33"}}
	for _, release := range placementsim.Releases() {
		models["Placement "+string(release)] = simcloud.Model{Placement: placementsim.Config{Release: release}}
	}
	for name, model := range models {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: &model})
			i := s.spawn(t, "gpu")
			settled(t, s.ops.Delete(t.Context(), i))
			s.nothingHeld(t)
		})
	}
}
