//go:build clients

package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
)

func TestTheExampleInPython(t *testing.T) {
	d := example(t, "acme.py", "python3")
	report, err := d.Discover(t.Context())
	if err != nil || len(report.Devices) != 1 || len(report.Problems) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	handles := report.Devices[0].Deployables[0].AttachHandles
	for n := range len(handles) + 1 {
		m, err := handles[n%len(handles)].Mdev(fmt.Sprintf("%08x-0000-4000-8000-000000000000", n))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // twice is once
			err = d.CreateMdev(t.Context(), m)
		}
		if full := n == len(handles); (err != nil) != full || full && !strings.HasSuffix(err.Error(), "no free slice") {
			t.Errorf("slice %d: %v", n, err)
		}
	}
	m := driver.Mdev{UUID: "00000000-0000-4000-8000-000000000000", Parent: "0000:3b:00.0", Type: "acme-slice"}
	for range 2 {
		if err := d.RemoveMdev(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	if err := d.CreateMdev(t.Context(), m); err != nil {
		t.Errorf("after a removal: %v", err)
	}
	if err := d.Program(t.Context(), report.Devices[0].ControlPath, "", nil); err == nil || !strings.HasSuffix(err.Error(), "program is not supported") {
		t.Errorf("Program: %v", err)
	}
}
