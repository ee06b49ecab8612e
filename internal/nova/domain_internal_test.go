package nova

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDomainsAreParsedLikeLibvirt(t *testing.T) {
	t.Parallel()
	text := `<?xml version="1.0" encoding="UTF-8"?>
<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><!-- c --><devices>
  <hostdev mode="subsystem" type="pci" managed="yes"><driver name="vfio"/><source><address domain="0x0000" bus="0x3b" slot="0x00" function="0x1"/></source><address type="pci" bus="0x05"/></hostdev>
  <hostdev type="pci"><source><address bus="59" slot="010"/></source></hostdev>
  <hostdev type="mdev" model="vfio-pci"><source><address uuid="51E314CB-59EE-4896-8B40-54953EE00227"/></source></hostdev>
  <hostdev type="pci"><source><address bus="0x3b" slot="8"/></source></hostdev>
  <hostdev mode="capabilities" type="pci"><source><address bus="0x78"/></source></hostdev>
  <other:hostdev type="pci" xmlns:other="urn:other"><source><address bus="0x79"/></source></other:hostdev>
  <hostdev type="usb"><source><address bus="0x3b"/></source></hostdev>
  <interface type="hostdev"><source><address type="pci" bus="0x77"/></source></interface>
</devices><devices/><metadata><devices><hostdev type="pci"/></devices></metadata></domain>`
	got, err := readDomain(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Device{{Bus: 0x3b, Function: 1}, {Bus: 0x3b, Slot: 8}, {Mdev: "51e314cb-59ee-4896-8b40-54953ee00227"}, {Bus: 0x77}}
	if diff := cmp.Diff(want, got.devices); diff != "" || got.text != text {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Device{{Bus: 0x3b, Slot: 8}}, got.twice); diff != "" {
		t.Errorf("devices that are there twice (-want +got):\n%s", diff)
	}
	for _, broken := range []string{"<domain>", "<domain><devices><hostdev></devices></domain>", "<devices><hostdev type='pci'/></devices>", "<domain/><domain/>"} {
		if _, err := readDomain(broken); err == nil {
			t.Errorf("%s was read", broken)
		}
	}
}
