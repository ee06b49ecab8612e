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
func withDisplay(t *testing.T, ramFB string) domainxml.Hostdev {
	t.Helper()
	d := mustHostdevs(t, "MDEV")[0]
	d.Hostdev.SubsysMDev.Display, d.Hostdev.SubsysMDev.RamFB = "on", ramFB
	return d
}

func TestAMediatedDeviceIsADisplayOnlyWhenTheCallerSaysSo(t *testing.T) {
	t.Parallel()
	for attributes, device := range map[string]domainxml.Hostdev{
		"": mustHostdevs(t, "MDEV")[0], ` display="on"`: withDisplay(t, ""), ` display="on" ramfb="on"`: withDisplay(t, "on"),
	} {
		text := attachXML(t, device)
		want := `<hostdev mode="subsystem" type="mdev" model="vfio-pci"` + attributes + ` managed="no">`
		if got, _, _ := strings.Cut(string(text), "\n"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// managedInfo is the info of a PCI handle with the key managed.
func managedInfo(value any) map[string]any {
	info := pciInfo("0000", "c8", "00", "2")
	info["managed"] = value
	return info
}

func TestAPCIHandleSaysWhetherLibvirtRebindsTheFunction(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]map[string]any{
		`managed="yes">`: managedInfo("true"), `managed="no">`: managedInfo("false"),
	} {
		handle := domainxml.Handle{ARQ: "arq-1", Type: "PCI", Info: info}
		hosts := hostdevsOf(t, handle)
		ports, _, err := domainxml.Interfaces([]domainxml.PortHandle{{Handle: handle, MAC: "52:54:00:1e:59:c3"}})
		if err != nil {
			t.Fatal(err)
		}
		for element, device := range map[string]domainxml.Hostdev{`<hostdev mode="subsystem" type="pci" `: hosts[0], `<interface type="hostdev" `: ports[0]} {
			text, err := domainxml.AttachXML(device)
			if got, _, _ := strings.Cut(string(text), "\n"); got != element+want || err != nil {
				t.Errorf("managed %v: %s, %v; want %s", info["managed"], got, err, element+want)
			}
		}
	}
	for _, value := range []any{true, false, "yes", "no", "False", "", 0.0, nil, []any{"false"}} {
		_, _, err := domainxml.Hostdevs([]domainxml.Handle{{ARQ: "arq-1", Type: "PCI", Info: managedInfo(value)}})
		if !errors.Is(err, domainxml.ErrHandle) || !strings.Contains(err.Error(), "arq-1") || !strings.Contains(err.Error(), "managed: ") {
			t.Errorf("managed %v: %v", value, err)
		}
	}
}
