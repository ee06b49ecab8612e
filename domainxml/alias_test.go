package domainxml_test

import (
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/domainxml"
)

// A domain of an earlier version, or of Nova, has no alias. It was completed while its request still had the device.
func TestACompletedDomainIdentifiesTheDevicesOfItsRequests(t *testing.T) {
	t.Parallel()
	const arq = "4b1e7a2c-0000-4000-8000-000000000001"
	device := func(bus string) []domainxml.Hostdev {
		return hostdevsOf(t, domainxml.Handle{ARQ: arq, Type: "PCI", Info: pciInfo("0000", bus, "00", "0")})
	}
	unmarked := []domainxml.Hostdev{{PCI: &domainxml.PCIAddress{Bus: 0x3b}}}
	old := edited(t, domainxml.Merge, domainxml.NewDomain(domainxml.DomainOpts{Name: "x"}), unmarked)
	rebooted := edited(t, domainxml.Complete, old, device("3b")) // the new version knows whose it is
	rebound := edited(t, domainxml.Complete, rebooted, device("5e"))
	got, err := domainxml.Read(rebound)
	if err != nil || len(got) != 1 {
		t.Errorf("the guest has %v, %v, want the one device of its request", got, err)
	}
}

// Only the alias changes, and only where libvirt would make one.
func TestCompleteGivesAPresentDeviceTheAliasOfItsRequest(t *testing.T) {
	t.Parallel()
	const (
		arq    = "4b1e7a2c-0000-4000-8000-000000000001"
		ours   = `<alias name="ua-arq-` + arq + `"/>`
		source = `<source><address uuid='` + mdevUUID + `'/></source>`
		other  = `<hostdev type='pci'><source><address bus='0x3b'/></source></hostdev>`
	)
	devices := hostdevsOf(t, domainxml.Handle{ARQ: arq, Type: "MDEV", UUID: mdevUUID})
	for before, after := range map[string]string{
		source: ``,
		source + `<address type='pci' bus='0x05'/>`:          source + ours + `<address type='pci' bus='0x05'/>`,
		"\r\n\t" + source + "<!-- <alias/> -->\r\n":          "\r\n\t" + source + "\r\n\t" + ours + "<!-- <alias/> -->\r\n",
		source + `<alias name='hostdev0'/><boot order='1'/>`: source + ours + `<boot order='1'/>`,
		`<alias name='hostdev12'></alias>` + source:          ours + source,
		source + `<alias/>`:                                  ``,
		source + `<alias name='ua-gpu'/>`:                    source + `<alias name='ua-gpu'/>`,
		source + `<alias name='ua-arq-gpu'/>`:                source + `<alias name='ua-arq-gpu'/>`,
		source + `<alias name='ua-arq-` + arq + `'/>`:        source + `<alias name='ua-arq-` + arq + `'/>`,
		source + `<x><alias name='hostdev0'/><source/></x>`:  source + ours + `<x><alias name='hostdev0'/><source/></x>`,
	} {
		if after == "" {
			after = source + ours
		}
		const domain = `<domain><devices>` + other + "\n  <hostdev type='mdev' model='vfio-pci'>%s</hostdev><hostdev type='usb'/></devices></domain>"
		got, err := domainxml.Complete(fmt.Appendf(nil, domain, before), devices)
		if want := fmt.Sprintf(domain, after); err != nil || string(got) != want {
			t.Errorf("Complete of %s:\n%s, %v, want\n%s", before, got, err, want)
		}
		again, err := domainxml.Complete(got, devices)
		if err != nil || string(again) != string(got) {
			t.Errorf("completed again:\n%s, %v, want\n%s", again, err, got)
		}
	}
}
