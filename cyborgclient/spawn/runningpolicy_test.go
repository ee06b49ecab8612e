package spawn_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// Placement refuses a group_policy for fewer than two groups in some releases, and the
// groups of the flavor that it was for are not requested again.
func TestARunningInstanceHasNoPolicyForOneGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	plain := flavor("gpu")
	plain.ExtraSpecs = nil
	if _, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plain}); err != nil {
		t.Fatal(err)
	}
	req := request("gpu")
	req.Running = true
	req.Flavor.ExtraSpecs["group_policy"] = "isolate"
	a, err := w.flow.Begin(req)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Unwind(t.Context())
	for _, step := range []func() error{
		func() error { return a.ReadProfile(t.Context()) },
		func() error { return a.BuildRequest(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if a.Spec.GroupPolicy != "isolate" {
		t.Fatalf("the flavor's policy is %q", a.Spec.GroupPolicy)
	}
	if err := a.FindCandidates(t.Context()); err != nil || a.Spec.GroupPolicy != "" {
		t.Errorf("policy %q for %d groups, %v", a.Spec.GroupPolicy, len(a.Spec.Groups), err)
	}
}
