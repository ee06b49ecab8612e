package domainxml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/domainxml"
)

// mixture has a handle of each kind, one of them of an unknown type.
func mixture(kinds ...string) []domainxml.Handle {
	all := map[string]domainxml.Handle{
		"PCI":      {ARQ: "arq-pci", Type: "PCI", UUID: "record-1", Info: pciInfo("0000", "0c", "0", "1")},
		"PCI2":     {ARQ: "arq-pci2", Type: "PCI", UUID: "record-2", Info: pciInfo("0000", "0c", "0", "2")},
		"MDEV":     {ARQ: "arq-mdev", Type: "MDEV", UUID: mdevUUID, Info: mdevInfo("nvidia-223")},
		"TEST_PCI": {ARQ: "arq-test", Type: "TEST_PCI", UUID: "record-3", Info: pciInfo("0000", "0c", "0", "3")},
		"NEW":      {ARQ: "arq-new", Type: "CXL", UUID: "record-4", Info: map[string]any{}},
		"":         {ARQ: "arq-unbound"},
	}
	var handles []domainxml.Handle
	for _, kind := range kinds {
		handles = append(handles, all[kind])
	}
	return handles
}

func mdevInfo(asked string) map[string]any {
	info := pciInfo("0000", "10", "01", "0")
	info["asked_type"], info["vgpu_mark"] = asked, asked+"_0"
	return info
}

func TestEachHandleIsConvertedByItsType(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		kinds       []string
		wantDevices []string
		wantSkipped []domainxml.Handle
		wantErr     error
	}{
		{"all PCI", []string{"PCI", "PCI2"}, []string{"arq-pci pci 0000:0c:00.1", "arq-pci2 pci 0000:0c:00.2"}, nil, nil},
		{"all TEST_PCI", []string{"TEST_PCI"}, nil, mixture("TEST_PCI"), nil},
		{
			"a mixture",
			[]string{"PCI", "TEST_PCI", "MDEV"},
			[]string{"arq-pci pci 0000:0c:00.1", "arq-mdev mdev " + mdevUUID},
			mixture("TEST_PCI"),
			nil,
		},
		{"unknown type", []string{"PCI", "NEW"}, nil, nil, domainxml.ErrHandle},
		{"unbound", []string{"PCI", ""}, nil, nil, domainxml.ErrHandle},
		{"nothing", nil, nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			devices, skipped, err := domainxml.Hostdevs(mixture(tt.kinds...))
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("error %v, want %v", err, tt.wantErr)
			}
			if diff := cmp.Diff(append([]string{}, tt.wantDevices...), names(devices)); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantSkipped, skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

// withDisplay is a mediated device that is a display of the guest.
func withDisplay(t *testing.T, ramFB string) domainxml.Device {
	t.Helper()
	d := mustHostdevs(t, "MDEV")[0]
	d.Hostdev.SubsysMDev.Display, d.Hostdev.SubsysMDev.RamFB = "on", ramFB
	return d
}

func TestAMediatedDeviceIsADisplayOnlyWhenTheCallerSaysSo(t *testing.T) {
	t.Parallel()
	for attributes, device := range map[string]domainxml.Device{
		"": mustHostdevs(t, "MDEV")[0], ` display="on"`: withDisplay(t, ""), ` display="on" ramfb="on"`: withDisplay(t, "on"),
	} {
		text, err := domainxml.AttachXML(device)
		if err != nil {
			t.Fatal(err)
		}
		want := `<hostdev mode="subsystem" type="mdev" model="vfio-pci"` + attributes + ` managed="no">`
		if got, _, _ := strings.Cut(string(text), "\n"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
