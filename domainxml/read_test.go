package domainxml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/domainxml"
)

func TestReadPassesOverOtherHostDevices(t *testing.T) {
	t.Parallel()
	domain := `<domain type="kvm"><devices>
		<hostdev mode="subsystem" type="usb"><source><vendor id="0x1"/><product id="0x2"/></source></hostdev>
		<hostdev mode="subsystem" type="scsi_host"><source protocol="vhost" wwpn="naa.5"/></hostdev>
		<hostdev mode="capabilities" type="storage"><source><block>/dev/sda</block></source></hostdev>
		<hostdev mode="subsystem" type="of-a-later-libvirt"><source/></hostdev>
		<hostdev/>
		<hostdev type="pci"><source><address domain="0x10000" bus="0x3b" slot="0x1f" function="7"/></source></hostdev>
		<hostdev mode="subsystem" type="mdev" model="vfio-ccw"><source><address uuid="51E314CB59EE4896 8b4054953ee00227"/></source></hostdev>
		<interface type="hostdev"><source><address type="pci" bus="1"/></source></interface>
	</devices></domain>`
	devices := devicesOf(t, []byte(domain))
	if diff := cmp.Diff([]string{"pci 10000:3b:1f.7", "mdev " + mdevUUID2}, names(devices)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if got := devices[1].Hostdev.SubsysMDev.Model; got != "vfio-ccw" {
		t.Errorf("model = %q, want the domain's vfio-ccw", got)
	}
}

func TestHasComparesByValue(t *testing.T) {
	t.Parallel()
	domain := []byte(`<domain type="kvm"><devices>
		<hostdev mode="subsystem" type="pci"><source><address bus="12" function="1"/></source></hostdev>
		<hostdev mode="subsystem" type="mdev" model="vfio-pci"><source><address uuid="` + strings.ToUpper(mdevUUID) + `"/></source></hostdev>
	</devices></domain>`)
	wantPresent(t, domain, twoDevices(t)...)
	for _, d := range []domainxml.Hostdev{{PCI: &domainxml.PCIAddress{Bus: 12}}, {MDEV: mdevUUID2}} {
		if there, err := has(domain, d); err != nil || there {
			t.Errorf("Has(%s) = %v, %v; want false", d, there, err)
		}
	}
}

// nested is a domain of elements inside each other.
func nested(depth int) string {
	return strings.Repeat("<domain>", depth) + strings.Repeat("</domain>", depth)
}

// sized is a domain of so many bytes.
func sized(n int) string {
	return "<domain>" + strings.Repeat(" ", n-len("<domain></domain>")) + "</domain>"
}

func TestInvalidDomainsAreRefused(t *testing.T) {
	t.Parallel()
	const good = `<domain type="kvm"><devices/></domain>`
	hostdev := func(text string) string { return `<domain type="kvm"><devices>` + text + `</devices></domain>` }
	tests := []struct{ name, text, cause string }{
		{"empty", "", "empty"},
		{"white space", " \n", "empty"},
		{"not XML", "hello", "outside its root element"},
		{"JSON", `{"domain": 1}`, "outside its root element"},
		{"another element", "<network/>", "root element is network"},
		{"a domain inside another element", "<x>" + good + "</x>", "root element is x"},
		{"a snapshot", "<domainsnapshot>" + good + "</domainsnapshot>", "root element is domainsnapshot"},
		{"upper case", "<DOMAIN/>", "root element is DOMAIN"},
		{"a domain in a name space", `<domain xmlns="urn:x"/>`, "name space urn:x"},
		{"a domain with a prefix", `<d:domain xmlns:d="urn:x"/>`, "name space urn:x"},
		{"two domains", good + good, "second root element"},
		{"junk before", "x" + good, "outside its root element"},
		{"junk behind", good + "\nx", `"x"`},
		{"CDATA behind", good + "<![CDATA[x]]>", "outside its root element"},
		{"a lone end tag behind", good + "</devices>", "unexpected end element"},
		{"cut off", good[:len(good)-4], "EOF"},
		{"only a comment", "<!-- " + good + " -->", "no root element"},
		{"open comment", "<!-- " + good, "EOF"},
		{"crossed tags", "<domain><devices></domain></devices>", "closed by"},
		{"a document type", `<!DOCTYPE domain>` + good, "document type"},
		{"entities", `<!DOCTYPE d [<!ENTITY a "b">]><domain><name>&a;</name></domain>`, "document type"},
		{"an unknown entity", `<domain><name>&a;</name></domain>`, "entity"},
		{"another encoding", `<?xml version="1.0" encoding="ISO-8859-1"?>` + good, "ISO-8859-1"},
		{"bytes that are not UTF-8", "<domain><name>\xff</name></domain>", "not UTF-8"},
		{"UTF-16", "\xff\xfe<\x00d\x00", "not UTF-8"},
		{"a control character", "<domain><name>\x01</name></domain>", "character"},
		{"an XML declaration inside", `<domain><?xml version="1.0"?></domain>`, "not at its start"},
		{"an attribute twice", `<domain type="kvm" type="qemu"/>`, "attribute type twice"},
		{"nested too deep", nested(257), "nested more than 256 deep"},
		{"huge", sized(4<<20 + 1), "4194305 bytes"},
		{"an interface without a type of its source", hostdev(`<interface type="hostdev"><source><address/></source></interface>`), "interface of type hostdev: Missing hostdev address type"},
		{"an NVMe disk with a bad bus", hostdev(`<disk type="nvme"><source type="pci"><address bus="3b"/></source></disk>`), "disk: "},
		{"PCI without source", hostdev(`<hostdev mode="subsystem" type="pci"/>`), "hostdev 1 (type pci)"},
		{"PCI without address", hostdev(`<hostdev mode="subsystem" type="pci"><source/></hostdev>`), "no PCI source address"},
		{"PCI with a bad bus", hostdev(`<hostdev mode="subsystem" type="pci"><source><address bus="3b"/></source></hostdev>`), "3b"},
		{"PCI out of range", hostdev(`<hostdev mode="subsystem" type="pci"><source><address slot="32"/></source></hostdev>`), "5 bits"},
		{"mdev without uuid", hostdev(`<hostdev mode="subsystem" type="mdev"><source><address/></source></hostdev>`), "UUID"},
		{"mdev without source", hostdev(`<hostdev mode="subsystem" type="mdev"/>`), "no source address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			devices, err := domainxml.Read([]byte(tt.text))
			if devices != nil || !errors.Is(err, domainxml.ErrNotDomain) {
				t.Fatalf("Read = %v, %v; want only ErrNotDomain", devices, err)
			}
			if !strings.Contains(err.Error(), tt.cause) {
				t.Errorf("error %q does not say %q", err, tt.cause)
			}
			merged, err := domainxml.Merge([]byte(tt.text), twoDevices(t))
			if merged != nil || !errors.Is(err, domainxml.ErrNotDomain) {
				t.Errorf("Merge = %q, %v; want only ErrNotDomain", merged, err)
			}
		})
	}
}

func TestOddButValidDomainsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"declaration and byte order mark": "\uFEFF<?xml version='1.0' encoding='utf-8'?>\n<domain/>\n",
		"comments round it":               "<!-- a --><domain/><!-- b --> <?pi x?>",
		"not a number":                    "<domain><vcpu>two</vcpu></domain>",
		"types that are not known": `<domain><devices><disk type="new"><source new="x"/></disk><interface type="new"/><interface/><controller/><graphics type="new"/>` +
			`<serial type="new"><source/></serial><channel type="unix"><target type="new"/></channel><tpm><backend type="new"/></tpm><hostdev type="new"/></devices></domain>`,
		"a copy to an NVMe disk of no PCI function": `<domain><devices><disk type="file"><mirror type="nvme"><source type="new"/></mirror></disk></devices></domain>`,
		"unknown elements":                          "<domain><brand-new/><devices><brand-new/></devices></domain>",
		"undeclared prefix":                         "<domain><x:y/></domain>",
		"as deep as libxml2 takes":                  nested(256),
		"as long as libvirt takes":                  sized(4 << 20),
	} {
		if devices, err := domainxml.Read([]byte(text)); err != nil || len(devices) != 0 {
			t.Errorf("%s: Read = %v, %v; want no devices", name, devices, err)
		}
	}
}
