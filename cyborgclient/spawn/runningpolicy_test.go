package spawn_test

import (
	"errors"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// Placement refuses a same_subtree of groups that are not requested.
func TestARunningInstanceHasNoSubtreeOfOtherGroups(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ given, want [][]string }{
		"another group":    {[][]string{{"_net", "device_profile_0"}}, [][]string{{"device_profile_0"}}},
		"no device":        {[][]string{{"_net", "_disk"}, {"device_profile_0", "device_profile_1"}}, [][]string{{"device_profile_0", "device_profile_1"}}},
		"only the devices": {[][]string{{"device_profile_0", "device_profile_1"}}, [][]string{{"device_profile_0", "device_profile_1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{})
			_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
			settled(t, err)
			req := request("mixed")
			req.Options.SameSubtree = tt.given
			req.Flavor.ExtraSpecs["resources_net:SRIOV_NET_VF"] = "1"
			a, err := w.flow.BeginAdding(t.Context(), req)
			settled(t, err)
			defer a.Unwind(t.Context())
			settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest))
			var none *spawn.NoCandidatesError
			if err := a.FindCandidates(t.Context()); err != nil && !errors.As(err, &none) {
				t.Error(err)
			}
			checkDiff(t, "same_subtree (-want +got)", tt.want, a.Spec.SameSubtree)
		})
	}
}

// Some releases of Placement refuse a group_policy for fewer than two groups, and the groups of the flavor are not
// requested again.
func TestARunningInstanceHasNoPolicyForOneGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	plain := flavor("gpu")
	plain.ExtraSpecs = nil
	_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plain})
	settled(t, err)
	req := request("gpu")
	req.Flavor.ExtraSpecs["group_policy"] = "isolate"
	a, err := w.flow.BeginAdding(t.Context(), req)
	settled(t, err)
	defer a.Unwind(t.Context())
	settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest))
	if a.Spec.GroupPolicy != "isolate" {
		t.Fatalf("the flavor's policy is %q", a.Spec.GroupPolicy)
	}
	if err := a.FindCandidates(t.Context()); err != nil || a.Spec.GroupPolicy != "" {
		t.Errorf("policy %q for %d groups, %v", a.Spec.GroupPolicy, len(a.Spec.Groups), err)
	}
}
