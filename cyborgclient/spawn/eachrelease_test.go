package spawn_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// lives returns the profiles that have a device on a release. Cyborg 9 and 10.0 have no vGPUs. Cyborg 10.1 reports no
// NVIDIA GPUs, because it cannot report their trait OWNER_CYBORG, and the trait of the profile vgpu does not exist
// there.
func lives(release fakecyborg.Release) map[string]bool {
	there := map[string]bool{"gpu": true, "vgpu": true, "fpga": true, "fake": true}
	switch release {
	case "zed", "10.0.0":
		there["vgpu"] = false
	case "2023.1":
		there["gpu"] = false
		delete(there, "vgpu")
	}
	return there
}

// An administrator's agent creates, binds and deletes ARQs on every release, with and without the defects of upstream
// Cyborg.
func TestALifeOfAnInstanceOnEachRelease(t *testing.T) {
	t.Parallel()
	for _, release := range fakecyborg.Releases() {
		for _, quirks := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, quirks %t", release, quirks), func(t *testing.T) {
				model := releasedModel(release)
				model.Cyborg.UpstreamQuirks = quirks
				s := newSite(t, worldOpts{model: model})
				for profile, there := range lives(release) {
					i, err := s.launch(t.Context(), profile)
					if !there {
						if !errors.Is(err, spawn.ErrNoCandidates) {
							t.Errorf("%s: %v, want no candidates", profile, err)
						}
						s.sound(t)
						continue
					}
					settled(t, err)
					s.running(t, i, true)
					if arqs := s.arqs(t, i); len(arqs) != 1 || arqs[0].State != cyborgclient.StateBound {
						t.Errorf("%s: %+v", profile, arqs)
					}
					s.sound(t)
					settled(t, s.ops.Delete(t.Context(), i))
					if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != 0 {
						t.Errorf("%s: after the deletion: %+v", profile, arqs)
					}
					s.sound(t)
				}
			})
		}
	}
}

// The requests of an instance of another project belong to it on every release.
func TestALifeForATenantOnEachRelease(t *testing.T) {
	t.Parallel()
	for _, release := range fakecyborg.Releases() {
		bubble(t, string(release), func(t *testing.T) {
			s := newSite(t, worldOpts{model: releasedModel(release)})
			req := request("fpga")
			req.ProjectID = s.cloud.ProjectID("demo")
			i := s.spawnOf(t, req)
			if arqs := s.arqs(t, i); len(arqs) != 1 || arqs[0].ProjectID != req.ProjectID {
				t.Errorf("%+v, want a request of project %s", arqs, req.ProjectID)
			}
			s.sound(t)
			settled(t, s.ops.Delete(t.Context(), i))
			if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != 0 {
				t.Errorf("after the deletion: %+v", arqs)
			}
			s.sound(t)
		})
	}
}
