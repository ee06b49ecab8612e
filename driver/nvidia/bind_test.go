package nvidia_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/driver"
)

// Somebody else gives a virtual function a type after the report that offers it. The bind fails, and
// what it undoes is not theirs.
func TestABindLeavesTheVGPUOfSomebodyElse(t *testing.T) {
	t.Parallel()
	tree := vgpuTree(t)
	h := startHost(t, tree, false, q48)
	deployable := h.cloud.Cyborg.Deployables()[0].Name
	theirs := driver.VGPUFile(function(2))
	if err := tree.WriteFile(theirs, []byte("1555")); err != nil {
		t.Fatal(err)
	}
	if a, err := h.bind(deployable, instanceA); err == nil || a.State != "BindFailed" {
		t.Fatalf("bound to a function of somebody else: %s, %v", a.State, err)
	}
	if now, err := tree.ReadFile(theirs); err != nil || string(now) != "1555\n" {
		t.Errorf("the vGPU of somebody else is %q now, %v", now, err)
	}
	if err := h.cloud.Cyborg.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, err := h.bind(deployable, instanceB); err != nil || a.AttachHandleInfo["function"] == "2" {
		t.Errorf("after a report: %s with %v, %v", a.State, a.AttachHandleInfo, err)
	}
}
