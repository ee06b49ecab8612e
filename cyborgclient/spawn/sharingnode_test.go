package spawn_test

import (
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// A compute node may share its disk with others. Its own candidates then consist of a sharing provider only.
func TestAComputeNodeThatSharesItsDiskIsRecognized(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		node, err := s.cloud.Placement.ResourceProvider(s.cloud.ProviderUUID("cn0"))
		settled(t, err)
		settled(t, s.cloud.Placement.SetTraits(node.UUID, append(node.Traits, "MISC_SHARES_VIA_AGGREGATE")...))
		result, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor(), Order: func(c []spawn.Candidate) []spawn.Candidate {
			if len(c) == 0 || c[0].Root == "" {
				t.Errorf("candidates %v", c)
			}
			return c
		}})
		if err != nil {
			t.Fatal(err)
		}
		settled(t, s.flow.Release(t.Context(), result.Instance))
	})
}
