package spawn_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestAnInstanceLivesOnEveryPlacement(t *testing.T) {
	t.Parallel()
	for _, release := range placementsim.Releases() {
		bubble(t, string(release), func(t *testing.T) {
			model := simcloud.DefaultModel()
			model.Placement.Release = release
			s := newSite(t, worldOpts{model: &model})
			i := s.spawn(t, "gpu")
			settled(t, s.ops.Delete(t.Context(), i))
			s.cloud.CheckNoLeaks(t)
			if allocations := s.cloud.Placement.Allocations(); len(allocations) > 0 {
				t.Errorf("allocations %v", allocations)
			}
		})
	}
}
