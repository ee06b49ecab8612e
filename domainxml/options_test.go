package domainxml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/domainxml"
)

const instance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"

// mixture has a handle of each kind, one of them of a type that nobody knows.
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

func TestTheRuleDecidesWhatBecomesADevice(t *testing.T) {
	t.Parallel()
	novaMaster := domainxml.Options{NovaMaster: true}
	ignore := domainxml.Options{IgnoreUnknown: true}
	tests := []struct {
		name        string
		opts        domainxml.Options
		kinds       []string
		wantDevices []string
		wantSkipped []string // request and reason
		wantErr     error
	}{
		{"all PCI", domainxml.Options{}, []string{"PCI", "PCI2"}, []string{"arq-pci pci 0000:0c:00.1", "arq-pci2 pci 0000:0c:00.2"}, nil, nil},
		{"all PCI, nova-master agrees", novaMaster, []string{"PCI", "PCI2"}, []string{"arq-pci pci 0000:0c:00.1", "arq-pci2 pci 0000:0c:00.2"}, nil, nil},
		{"all TEST_PCI", domainxml.Options{}, []string{"TEST_PCI"}, nil, []string{"arq-test "}, nil},
		{"all TEST_PCI, nova-master agrees", novaMaster, []string{"TEST_PCI"}, nil, []string{"arq-test not every handle is PCI"}, nil},
		{
			"a mixture is judged one by one",
			domainxml.Options{},
			[]string{"PCI", "TEST_PCI", "MDEV"},
			[]string{"arq-pci pci 0000:0c:00.1", "arq-mdev mdev " + mdevUUID},
			[]string{"arq-test "},
			nil,
		},
		{"a mixture, nova-master", novaMaster, []string{"PCI", "TEST_PCI"}, nil, []string{"arq-pci not every handle is PCI", "arq-test not every handle is PCI"}, nil},
		{"MDEV, nova-master", novaMaster, []string{"MDEV"}, nil, []string{"arq-mdev not every handle is PCI"}, nil},
		{"unbound, nova-master", novaMaster, []string{"PCI", ""}, nil, []string{"arq-pci not every handle is PCI", "arq-unbound not every handle is PCI"}, nil},
		{"unknown", domainxml.Options{}, []string{"PCI", "NEW"}, nil, nil, domainxml.ErrHandle},
		{"unknown, ignored", ignore, []string{"PCI", "NEW"}, []string{"arq-pci pci 0000:0c:00.1"}, []string{"arq-new unknown type"}, nil},
		{"unbound is never ignored", ignore, []string{"PCI", ""}, nil, nil, domainxml.ErrHandle},
		{"nothing", domainxml.Options{}, nil, nil, nil, nil},
		{"nothing, nova-master", novaMaster, nil, nil, nil, nil},
		{"ramfb alone", domainxml.Options{RamFB: true}, []string{"PCI"}, nil, nil, domainxml.ErrOptions},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			devices, skipped, err := tt.opts.Hostdevs(mixture(tt.kinds...))
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("error %v, want %v", err, tt.wantErr)
			}
			if diff := cmp.Diff(append([]string{}, tt.wantDevices...), names(devices)); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			var got []string
			for _, s := range skipped {
				got = append(got, s.ARQ+" "+s.Reason)
			}
			if diff := cmp.Diff(tt.wantSkipped, got); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheDomainsTypeDecidesWhetherPCIIsManaged(t *testing.T) {
	t.Parallel()
	for virt, want := range map[string]string{"": "yes", "kvm": "yes", "qemu": "yes", "parallels": "no", "lxc": "yes"} {
		devices, _, err := domainxml.Options{VirtType: virt}.Hostdevs(mixture("PCI", "MDEV"))
		if err != nil {
			t.Fatal(err)
		}
		if got := devices[0].Hostdev.Managed; got != want {
			t.Errorf("%q: PCI managed=%q, want %q", virt, got, want)
		}
		if got := devices[1].Hostdev.Managed; got != "no" {
			t.Errorf("%q: MDEV managed=%q, want no", virt, got)
		}
	}
}

func TestDisplayAndRamFBAreOffByDefault(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]domainxml.Options{
		"": {}, ` display="on"`: {Display: true}, ` display="on" ramfb="on"`: {Display: true, RamFB: true},
	} {
		devices, _, err := opts.Hostdevs(mixture("MDEV", "PCI"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := domainxml.AttachXML(devices[0])
		if err != nil {
			t.Fatal(err)
		}
		want := `<hostdev mode="subsystem" type="mdev" model="vfio-pci"` + name + ` managed="no">`
		if got, _, _ := strings.Cut(string(text), "\n"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		pci, err := domainxml.AttachXML(devices[1])
		if err != nil || strings.Contains(string(pci), "display") {
			t.Errorf("a PCI device has a display: %s, %v", pci, err)
		}
	}
}

func TestTheMessageIsNovas(t *testing.T) {
	t.Parallel()
	want := "Ignoring accelerator requests for instance " + instance +
		". Supported Attach handle types: {'PCI'}. But got these unsupported types: {'MDEV', 'TEST_PCI'}."
	if diff := cmp.Diff(want, domainxml.IgnoredMessage(instance, mixture("TEST_PCI", "PCI", "MDEV", "MDEV"))); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if got := domainxml.IgnoredMessage(instance, mixture("PCI")); got != "" {
		t.Errorf("message %q although all are PCI", got)
	}
}
