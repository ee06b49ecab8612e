package domainxml_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"libvirt.org/go/libvirtxml"

	"github.com/gocyborg/gocyborg/domainxml"
)

// inputs gives the domains under testdata by name.
func inputs(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.in.xml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no input domains: %v", err)
	}
	domains := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		domains[strings.TrimSuffix(filepath.Base(path), ".in.xml")] = text
	}
	return domains
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("GOCYBORG_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestMergeMatchesItsGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, domain := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := bytes.Clone(domain)
			merged := edited(t, domainxml.Merge, domain, twoDevices(t))
			if !bytes.Equal(before, domain) {
				t.Error("Merge changed its input")
			}
			insertion(t, domain, merged)
			golden(t, name, merged)
		})
	}
}

func TestMergeUsesTheLineEndsOfItsPlace(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]string{
		"<domain/>\r\n": "\r\n",
		"<domain>\n  <name>a</name>\n  <devices>\r\n    <console type='pty'/>\r\n  </devices>\n</domain>\n": "\r\n",
		"<domain>\r\n  <devices>\n    <console type='pty'/>\n  </devices>\n</domain>\r\n":                   "\n",
		"<domain><devices></devices></domain>\n":                                                            "",
		"<domain><name>a</name></domain>\n":                                                                 "",
		"<domain><devices><console/></devices></domain>\r\n":                                                "",
	} {
		merged := edited(t, domainxml.Merge, []byte(domain), twoDevices(t))
		text := insertion(t, []byte(domain), merged)
		if ends := slices.Compact(regexp.MustCompile("\r?\n").FindAllString(text, -1)); strings.Join(ends, "") != want {
			t.Errorf("%q: the inserted text has the line ends %q, want %q", domain, ends, want)
		}
	}
}

func TestMergedDevicesAreReadBackAfterTheDomainsOwn(t *testing.T) {
	t.Parallel()
	for name, domain := range inputs(t) {
		got := devicesOf(t, edited(t, domainxml.Merge, domain, twoDevices(t)))
		want := append(names(devicesOf(t, domain)), "pci 0000:0c:00.1", "mdev "+mdevUUID)
		if name == "nova-order" { // Nova's own mediated device stays behind the balloon
			want[1], want[2], want[3] = want[2], want[3], want[1]
		}
		if diff := cmp.Diff(want, names(got)); diff != "" {
			t.Errorf("%s: devices (-want +got):\n%s", name, diff)
		}
	}
}

func TestMergeInStepsEqualsMergeAtOnce(t *testing.T) {
	t.Parallel()
	devices := twoDevices(t)
	for name, domain := range inputs(t) {
		once := edited(t, domainxml.Merge, domain, devices)
		first := edited(t, domainxml.Merge, domain, devices[:1])
		both := edited(t, domainxml.Merge, first, devices[1:])
		if diff := cmp.Diff(string(once), string(both)); diff != "" {
			t.Errorf("%s (-at once +in steps):\n%s", name, diff)
		}
	}
}

func TestMergeOfNothingCopiesTheDomain(t *testing.T) {
	t.Parallel()
	for name, domain := range inputs(t) {
		merged, err := domainxml.Merge(domain, nil)
		if err != nil || !bytes.Equal(domain, merged) {
			t.Errorf("%s: Merge of nothing = %q, %v; want an equal copy", name, merged, err)
		}
		if len(merged) > 0 {
			merged[0] ^= 0xff
			if bytes.Equal(domain, merged) {
				t.Errorf("%s: Merge of nothing gave its input, not a copy", name)
			}
		}
	}
}

func TestMergeRefusesADeviceThatIsPresentAlready(t *testing.T) {
	t.Parallel()
	pci := func(attrs string) string {
		return `<hostdev mode="subsystem" type="pci"><source><address ` + attrs + `/></source></hostdev>`
	}
	mdev := func(uuid string) string {
		return `<hostdev mode="subsystem" type="mdev" model="vfio-pci"><source><address uuid="` + uuid + `"/></source></hostdev>`
	}
	tests := []struct{ name, hostdev string }{
		{"as written here", pci(`domain="0x0000" bus="0x0c" slot="0x00" function="0x1"`)},
		{"as Nova writes it", pci(`domain="0x0000" bus="0x0c" slot="0x0" function="0x1"`)},
		{"in decimal", pci(`domain="0" bus="12" slot="0" function="1"`)},
		{"in octal, as libvirt reads it", pci(`bus="014" function="1"`)},
		{"in upper case", pci(`bus="0X0C" function="1"`)},
		{"without the zero parts", pci(`bus="0x0c" function="1"`)},
		{"without mode, which libvirt takes as subsystem", `<hostdev type="pci"><source><address bus="12" function="1"/></source></hostdev>`},
		{"mdev", mdev(mdevUUID)},
		{"mdev in upper case", mdev(strings.ToUpper(mdevUUID))},
		{"mdev without dashes", mdev(strings.ReplaceAll(mdevUUID, "-", ""))},
		{"as a network interface", `<interface type="hostdev"><mac address="52:54:00:1e:59:c3"/>` +
			`<source><address type="pci" domain="0x0000" bus="0x0c" slot="0x00" function="0x1"/></source></interface>`},
		{"as an NVMe disk", `<disk type="nvme" device="disk"><source type="pci" managed="yes" namespace="1">` +
			`<address domain="0x0000" bus="0x0c" slot="0x00" function="0x1"/></source><target dev="vda" bus="virtio"/></disk>`},
		{"as the image behind a disk", `<disk type="file"><source file="/new"/><backingStore type="file"><format type="qcow2"/><source file="/old"/>` +
			`<backingStore type="nvme"><format type="raw"/><source type="pci" namespace="1"><address bus="0x0c" function="0x1"/></source></backingStore></backingStore></disk>`},
		{"as the copy of a disk", `<disk type="file"><source file="/old"/><mirror type="nvme" job="copy"><format type="raw"/>` +
			`<source type="pci" namespace="1"><address bus="0x0c" function="0x1"/></source></mirror></disk>`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			domain := []byte(`<domain type="kvm"><devices>` + tt.hostdev + `</devices></domain>`)
			merged, err := domainxml.Merge(domain, twoDevices(t))
			var dup *domainxml.DuplicateError
			if merged != nil || !errors.Is(err, domainxml.ErrDuplicate) || !errors.As(err, &dup) {
				t.Fatalf("Merge = %q, %v; want only ErrDuplicate", merged, err)
			}
			if !strings.HasPrefix(dup.ARQ, "arq-") || !strings.Contains(dup.Holder, "of the domain") {
				t.Errorf("error = %#v; want the request and the domain as holder", dup)
			}
		})
	}
}

func TestMergeAcceptsADeviceThatOnlyLooksPresent(t *testing.T) {
	t.Parallel()
	same := `<hostdev mode="subsystem" type="pci"><source><address bus="0x0c" function="0x1"/></source></hostdev>`
	for name, domain := range map[string]string{
		"in the metadata":            `<domain type="kvm"><metadata><x>` + same + `</x></metadata><devices/></domain>`,
		"in a comment":               `<domain type="kvm"><devices><!--` + same + `--></devices></domain>`,
		"in CDATA":                   `<domain type="kvm"><title><![CDATA[` + same + `]]></title><devices/></domain>`,
		"in another name space":      `<domain type="kvm"><devices xmlns="urn:x">` + same + `</devices></domain>`,
		"in an unknown element":      `<domain type="kvm"><devices><new>` + same + `</new></devices></domain>`,
		"outside devices":            `<domain type="kvm">` + same + `</domain>`,
		"NVMe disks without it":      `<domain type="kvm"><devices><disk type="nvme"><source type="pci"/><target dev="vda"/></disk><disk type="nvme"/></devices></domain>`,
		"as a guest address":         `<domain type="kvm"><devices><disk><address type="pci" bus="0x0c" function="0x1"/></disk></devices></domain>`,
		"at a higher PCI domain":     `<domain type="kvm"><devices>` + strings.Replace(same, "<address", `<address domain="0x10000"`, 1) + `</devices></domain>`,
		"as a capabilities host dev": `<domain type="kvm"><devices><hostdev mode="capabilities" type="misc"><source><char>/dev/x</char></source></hostdev></devices></domain>`,
	} {
		merged, err := domainxml.Merge([]byte(domain), twoDevices(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		insertion(t, []byte(domain), merged)
		wantPresent(t, merged, twoDevices(t)...)
	}
}

func TestMergeRefusesADeviceTwiceInTheList(t *testing.T) {
	t.Parallel()
	domain := domainxml.NewDomain(domainxml.DomainOpts{})
	upper := strings.ToUpper(mdevUUID)
	tests := map[string][]domainxml.Hostdev{
		"pci":  {{ARQ: "a", PCI: &domainxml.PCIAddress{Bus: 12}}, {ARQ: "b", PCI: &domainxml.PCIAddress{Bus: 12}}},
		"mdev": {{ARQ: "a", MDEV: mdevUUID}, {ARQ: "b", MDEV: upper}},
	}
	for name, devices := range tests {
		merged, err := domainxml.Merge(domain, devices)
		var dup *domainxml.DuplicateError
		if merged != nil || !errors.As(err, &dup) || dup.ARQ != "b" || dup.Holder != "accelerator request a" {
			t.Errorf("%s: Merge = %q, %v; want a duplicate of request a's", name, merged, err)
		}
	}
}

func TestMergeRefusesDevicesWithoutOneName(t *testing.T) {
	t.Parallel()
	bad := func(bus, slot, function uint) domainxml.Hostdev {
		return domainxml.Hostdev{PCI: &domainxml.PCIAddress{Bus: bus, Slot: slot, Function: function}}
	}
	other, otherMdev := twoDevices(t)[0], twoDevices(t)[1]
	other.PCI, otherMdev.MDEV = &domainxml.PCIAddress{Bus: 1}, mdevUUID2
	tests := map[string]domainxml.Hostdev{
		"none":                     {ARQ: "arq-1"},
		"both":                     {PCI: &domainxml.PCIAddress{}, MDEV: mdevUUID},
		"bus too large":            bad(0x13b, 0, 0),
		"slot too large":           bad(0, 0x20, 0),
		"function too large":       bad(0, 0, 8),
		"no uuid":                  {MDEV: "abc"},
		"element of another":       other,
		"element of another mdev":  otherMdev,
		"element without a source": {MDEV: mdevUUID, Hostdev: libvirtxml.DomainHostdev{SubsysMDev: &libvirtxml.DomainHostdevSubsysMDev{}}},
	}
	for name, d := range tests {
		merged, err := domainxml.Merge(domainxml.NewDomain(domainxml.DomainOpts{}), []domainxml.Hostdev{d})
		if merged != nil || !errors.Is(err, domainxml.ErrDevice) {
			t.Errorf("%s: Merge = %q, %v; want ErrDevice", name, merged, err)
		}
		if _, err := has(domainxml.NewDomain(domainxml.DomainOpts{}), d); !errors.Is(err, domainxml.ErrDevice) {
			t.Errorf("%s: Has = %v; want ErrDevice", name, err)
		}
	}
}

func TestMergeKeepsWhatACallerAddedToTheElement(t *testing.T) {
	t.Parallel()
	d := twoDevices(t)[0]
	d.Hostdev.SubsysPCI.Driver = &libvirtxml.DomainHostdevSubsysPCIDriver{Name: "vfio"}
	d.Hostdev.Alias = &libvirtxml.DomainAlias{Name: `ua-gpu"<&>`}
	merged := edited(t, domainxml.Merge, domainxml.NewDomain(domainxml.DomainOpts{}), []domainxml.Hostdev{d})
	got, err := domainxml.Read(merged)
	if err != nil || len(got) != 1 {
		t.Fatalf("Read = %v, %v; want one device", got, err)
	}
	if diff := cmp.Diff(d.Hostdev, got[0].Hostdev); diff != "" {
		t.Errorf("element (-given +read back):\n%s", diff)
	}
}

func TestADeviceNeedsOnlyItsNameOrItsElement(t *testing.T) {
	t.Parallel()
	full := twoDevices(t)
	domain := domainxml.NewDomain(domainxml.DomainOpts{})
	want := edited(t, domainxml.Merge, domain, full)
	for name, devices := range map[string][]domainxml.Hostdev{
		"name":    {{PCI: full[0].PCI}, {MDEV: strings.ToUpper(full[1].MDEV)}},
		"element": {{Hostdev: full[0].Hostdev}, {Hostdev: full[1].Hostdev}},
	} {
		got, err := domainxml.Merge(domain, devices)
		if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v, merged (-want +got):\n%s", name, err, diff)
		}
	}
}

// A handle has 16 bits for the domain of an address, libvirt takes 32.
func TestMergeTakesEveryPCIDomainOfLibvirt(t *testing.T) {
	t.Parallel()
	domain := domainxml.NewDomain(domainxml.DomainOpts{})
	device := domainxml.Hostdev{PCI: &domainxml.PCIAddress{Domain: math.MaxUint32}}
	merged := edited(t, domainxml.Merge, domain, []domainxml.Hostdev{device})
	wantPresent(t, merged, device)
	device.PCI.Domain++
	if _, err := domainxml.Merge(domain, []domainxml.Hostdev{device}); !errors.Is(err, domainxml.ErrDevice) || !strings.Contains(err.Error(), "domain does not fit in 32 bits") {
		t.Errorf("one more: %v; want ErrDevice", err)
	}
}

func TestMergedDevicesAreReadBackInAnyLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		domain := drawDomain(r)
		seen := map[string]bool{}
		var devices []domainxml.Hostdev
		for range rapid.IntRange(0, 5).Draw(r, "devices") {
			a := drawAddress(r)
			if d := (domainxml.Hostdev{PCI: &a}); !seen[d.String()] {
				seen[d.String()] = true
				devices = append(devices, d)
			}
		}
		merged, err := domainxml.Merge(domain, devices)
		if errors.Is(err, domainxml.ErrDuplicate) {
			r.Skip("drew the device of the domain")
		}
		if err != nil {
			r.Fatal(err)
		}
		had := devicesOf(r, domain)
		got := devicesOf(r, merged)
		if diff := cmp.Diff(append(names(had), names(devices)...), names(got)); diff != "" {
			r.Errorf("devices (-want +got):\n%s\n%s", diff, merged)
		}
		insertion(t, domain, merged)
	})
}

// drawDomain builds a document out of pieces joined by drawn white space.
func drawDomain(r *rapid.T) []byte {
	space := rapid.SampledFrom([]string{"", "\n", "\r\n\t", "\n    ", "  ", "<!-- </devices> -->", "\n<!--x-->"})
	piece := rapid.SampledFrom([]string{"<console type='pty'/>", "<new/>", "<disk type='file'><target dev='vda'/></disk>",
		"<hostdev mode='subsystem' type='usb'><source/></hostdev>",
		"<hostdev mode='subsystem' type='pci'><source><address bus='0xab'/></source></hostdev>"})
	var b strings.Builder
	b.WriteString("<domain type='kvm'>" + space.Draw(r, "s1") + "<name>x</name>" + space.Draw(r, "s2"))
	switch rapid.IntRange(0, 3).Draw(r, "form") {
	case 0:
		b.WriteString("<devices/>")
	case 1:
	default:
		b.WriteString("<devices>")
		for _, p := range rapid.SliceOfNDistinct(piece, 0, 3, rapid.ID).Draw(r, "pieces") {
			b.WriteString(space.Draw(r, "s") + p)
		}
		b.WriteString(space.Draw(r, "s3") + "</devices>")
	}
	b.WriteString(space.Draw(r, "s4") + "</domain>" + space.Draw(r, "s5"))
	return []byte(b.String())
}
