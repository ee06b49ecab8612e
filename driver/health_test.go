package driver_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	aer := func(total string, n string) string { return "Undefined 0\nDLP 1\n" + total + " " + n + "\n" }
	for name, tt := range map[string]struct {
		files    map[string]string
		want     driver.Health
		troubles []string
		garbled  int
	}{
		"a capture without the files": {},
		"sound and idle": {
			files: map[string]string{"power_state": "D0\n", "current_link_speed": "2.5 GT/s PCIe\n", "max_link_speed": "16.0 GT/s PCIe\n",
				"current_link_width": "16\n", "max_link_width": "16\n", "aer_dev_correctable": aer("TOTAL_ERR_COR", "7"), "aer_dev_fatal": aer("TOTAL_ERR_FATAL", "0")},
			want: driver.Health{PowerState: "D0", LinkSpeed: "2.5 GT/s PCIe", MaxLinkSpeed: "16.0 GT/s PCIe", LinkWidth: 16, MaxLinkWidth: 16, Correctable: 7},
		},
		"in trouble": {
			files: map[string]string{"power_state": "error\n", "current_link_width": "4\n", "max_link_width": "16\n",
				"aer_dev_nonfatal": aer("TOTAL_ERR_NONFATAL", "2"), "aer_dev_fatal": aer("TOTAL_ERR_FATAL", "1")},
			want: driver.Health{PowerState: "error", LinkWidth: 4, MaxLinkWidth: 16, NonFatal: 2, Fatal: 1},
			troubles: []string{
				"its power state is error", "its link has 4 of 16 lanes", "the kernel counted 1 fatal and 2 other uncorrected errors of it",
			},
		},
		"a link that is down": {
			files:    map[string]string{"current_link_speed": "Unknown\n", "current_link_width": "0\n", "max_link_width": "8\n"},
			want:     driver.Health{LinkSpeed: "Unknown", MaxLinkWidth: 8},
			troubles: []string{"its link has 0 of 8 lanes"},
		},
		"garbled": {
			files:   map[string]string{"power_state": "\n", "max_link_width": "many\n", "aer_dev_fatal": aer("TOTAL_ERR_FATAL", "-1")},
			garbled: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, sysfs.PCIDevice{Address: "0000:3b:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Files: tt.files})
			got, err := driver.ReadHealth(driver.NewView(tree), driver.PCIAddress{Bus: 0x3b})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.troubles, got.Troubles()); diff != "" {
				t.Errorf("troubles (-want +got):\n%s", diff)
			}
			var problems interface{ Unwrap() []error }
			if n := 0; errors.As(err, &problems) {
				if n = len(problems.Unwrap()); n != tt.garbled || !errors.Is(err, driver.ErrGarbled) {
					t.Errorf("%d problems, want %d: %v", n, tt.garbled, err)
				}
			} else if tt.garbled > 0 {
				t.Error("no problem")
			}
		})
	}
}

// TestAVirtualFunctionHasTheLinkOfItsCard: the state of a link is not implemented in virtual functions.
func TestAVirtualFunctionHasTheLinkOfItsCard(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, sysfs.PCIDevice{Address: "0000:05:00.0", Vendor: "8086", Product: "1521", Class: "0200", VFs: &sysfs.VFs{Total: 1, Enabled: 1},
		Files: map[string]string{"current_link_speed": "5.0 GT/s PCIe\n", "max_link_speed": "5.0 GT/s PCIe\n", "current_link_width": "4\n", "max_link_width": "4\n"}})
	for name, text := range map[string]string{"power_state": "D3hot", "current_link_speed": "Unknown", "max_link_speed": "5.0 GT/s PCIe", "current_link_width": "0", "max_link_width": "4"} {
		tree.SetFile("bus/pci/devices/0000:05:00.1/"+name, []byte(text+"\n"))
	}
	got, err := driver.ReadHealth(driver.NewView(tree), driver.PCIAddress{Bus: 5, Function: 1})
	want := driver.Health{PowerState: "D3hot", LinkSpeed: "5.0 GT/s PCIe", MaxLinkSpeed: "5.0 GT/s PCIe", LinkWidth: 4, MaxLinkWidth: 4}
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(got.Troubles()) > 0 {
		t.Errorf("%v, %q, health (-want +got):\n%s", err, got.Troubles(), diff)
	}
}
