//go:build libvirt

package domainxml_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/domainxml"
)

// These tests ask libvirt's own tools (Debian: libvirt-clients, libxml2-utils).
// The schema misses duplicates and the parser misses unknown attributes, so both
// are asked; the parser is that of libvirt's test driver, which needs no daemon.

func tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; it is in Debian's libvirt-clients, and virt-xml-validate needs libxml2-utils", err)
	}
	stdout, stderr, err := output(t, nil, path, args...)
	return stdout + stderr, err
}

func saved(t *testing.T, domain []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(path, domain, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func validate(t *testing.T, domain []byte) (string, error) {
	t.Helper()
	return tool(t, "virt-xml-validate", saved(t, domain), "domain")
}

// define reads a domain with libvirt's parser. The test driver knows neither KVM
// nor machine types.
func define(t *testing.T, domain []byte) (string, error) {
	t.Helper()
	text := strings.NewReplacer(`type="kvm"`, `type="test"`, `type="qemu"`, `type="test"`, ` arch="x86_64" machine="q35"`, "").Replace(string(domain))
	return tool(t, "virsh", "-q", "-c", "test:///default", "define", saved(t, []byte(text)))
}

func merged(t *testing.T, opts domainxml.DomainOpts, devices []domainxml.Hostdev) []byte {
	t.Helper()
	domain := edited(t, domainxml.Merge, domainxml.NewDomain(opts), devices)
	return domain
}

func TestLibvirtAcceptsMergedDomains(t *testing.T) {
	highest := domainxml.Hostdev{PCI: &domainxml.PCIAddress{Domain: 0xffff, Bus: 0xff, Slot: 0x1f, Function: 7}}
	for name, domain := range map[string][]byte{
		"without devices":   domainxml.NewDomain(domainxml.DomainOpts{}),
		"with both kinds":   merged(t, fullOpts(), twoDevices(t)),
		"highest addresses": merged(t, domainxml.DomainOpts{}, []domainxml.Hostdev{highest}),
		"a name to escape":  merged(t, domainxml.DomainOpts{Name: `a & <b> "c"`}, twoDevices(t)),
	} {
		if out, err := validate(t, domain); err != nil {
			t.Errorf("%s: virt-xml-validate: %v\n%s\n%s", name, err, out, domain)
		}
		if out, err := define(t, domain); err != nil {
			t.Errorf("%s: virsh define: %v\n%s\n%s", name, err, out, domain)
		}
	}
}

func TestTheToolsRefuseWhatIsWrong(t *testing.T) {
	good := string(merged(t, fullOpts(), twoDevices(t)))
	if out, err := validate(t, []byte(strings.Replace(good, `type="mdev"`, `type="vgpu"`, 1))); err == nil {
		t.Errorf("virt-xml-validate accepted an unknown type: %s", out)
	}
	element := good[strings.Index(good, "<hostdev"):strings.Index(good, "</devices>")]
	if out, err := define(t, []byte(strings.Replace(good, "</devices>", element+"</devices>", 1))); err == nil {
		t.Errorf("virsh accepted a device twice: %s", out)
	}
}

// The schema describes devices as libvirt shows them, with a name. libvirt chooses one if a
// document to create a device does not name it.
func TestLibvirtAcceptsNodeDevices(t *testing.T) {
	d, err := domainxml.NodeDeviceOf(mixture("MDEV")[0], "")
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Replace(string(d.XML()), "<parent>", "<name>"+d.Name+"</name><parent>", 1)
	if out, err := tool(t, "virt-xml-validate", saved(t, []byte(shown)), "nodedev"); err != nil {
		t.Errorf("virt-xml-validate: %v\n%s\n%s", err, out, shown)
	}
}
