package domainxml_test

import (
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"github.com/gocyborg/gocyborg/domainxml"
)

func TestNewDomainMatchesItsGoldenFiles(t *testing.T) {
	t.Parallel()
	golden(t, "new-domain-zero", domainxml.NewDomain(domainxml.DomainOpts{}))
	golden(t, "new-domain-full", domainxml.NewDomain(fullOpts()))
}

func fullOpts() domainxml.DomainOpts {
	return domainxml.DomainOpts{Name: "vm-1", UUID: mdevUUID2, MemoryMiB: 2048, VCPUs: 4}
}

func TestNewDomainEscapesItsText(t *testing.T) {
	t.Parallel()
	name := `a</name><devices>&"'`
	text := domainxml.NewDomain(domainxml.DomainOpts{Name: name, UUID: "</uuid>"})
	var d libvirtxml.Domain
	if err := d.Unmarshal(string(text)); err != nil {
		t.Fatal(err)
	}
	if d.Name != name || d.UUID != "</uuid>" {
		t.Errorf("name %q, uuid %q; want them as given", d.Name, d.UUID)
	}
}

func TestNewDomainTakesDevices(t *testing.T) {
	t.Parallel()
	merged := edited(t, domainxml.Merge, domainxml.NewDomain(fullOpts()), twoDevices(t))
	golden(t, "new-domain-merged", merged)
	if strings.Contains(string(merged), "emulator") {
		t.Error("the domain names an emulator, which depends on the host")
	}
}
