package nvidia_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/driver"
)

// Another program sets the type of a virtual function after the report that offers it. The bind
// fails, and its cleanup does not clear that type.
func TestABindKeepsTheVGPUOfAnotherProgram(t *testing.T) {
	t.Parallel()
	tree := vgpuTree(t)
	h := startHost(t, tree, false, q48)
	deployable := h.cloud.Cyborg.Deployables()[0].Name
	theirs := driver.VGPUFile(function(2))
	if err := tree.WriteFile(theirs, []byte("1555")); err != nil {
		t.Fatal(err)
	}
	if a, err := h.bind(deployable, instanceA); err == nil || a.State != "BindFailed" {
		t.Fatalf("bound to a function of another program: %s, %v", a.State, err)
	}
	if now, err := tree.ReadFile(theirs); err != nil || string(now) != "1555\n" {
		t.Errorf("the vGPU of the other program is %q now, %v", now, err)
	}
	if err := h.cloud.Cyborg.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, err := h.bind(deployable, instanceB); err != nil || a.AttachHandleInfo["function"] == "2" {
		t.Errorf("after a report: %s with %v, %v", a.State, a.AttachHandleInfo, err)
	}
}
