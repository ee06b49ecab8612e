package domainxml_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/domainxml"
)

// The list of a caller is in any order, and may name a device twice.
func TestRemoveInAnyOrder(t *testing.T) {
	t.Parallel()
	domain := inputs(t)["nova-order"]
	devices := twoDevices(t)
	merged := edited(t, domainxml.Merge, domain, devices)
	slices.Reverse(devices)
	for _, list := range [][]domainxml.Hostdev{devices, append(devices, devices...)} {
		got, err := domainxml.Remove(merged, list)
		if diff := cmp.Diff(string(domain), string(got)); diff != "" || err != nil {
			t.Errorf("%v: %v (-before +after):\n%s", names(list), err, diff)
		}
	}
}

// A line that holds more than the device stays.
func TestRemoveKeepsTheRestOfALine(t *testing.T) {
	t.Parallel()
	const device = `<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x0c' slot='0x00' function='0x1'/></source></hostdev>`
	for _, line := range []string{
		"    DEVICE<!-- mine -->\n", "    DEVICE<video/>\n", "    <video/>DEVICE\n", "    DEVICE </devices>\n",
	} {
		domain := "<domain type='kvm'>\n  <name>a</name>\n  <devices>\n" + line
		if !strings.Contains(line, "</devices>") {
			domain += "  </devices>\n"
		}
		domain += "</domain>\n"
		got, err := domainxml.Remove([]byte(strings.Replace(domain, "DEVICE", device, 1)), twoDevices(t)[:1])
		if diff := cmp.Diff(strings.Replace(domain, "DEVICE", "", 1), string(got)); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", line, err, diff)
		}
	}
}

func TestTheBindingProfileOfTheCallerStays(t *testing.T) {
	t.Parallel()
	profile := map[string]any{"arq_uuid": "a", "trusted": "true"}
	before := maps.Clone(profile)
	if got := domainxml.CleanBindingProfile(profile); len(got) != 1 {
		t.Errorf("cleaned: %v", got)
	}
	if diff := cmp.Diff(before, profile); diff != "" {
		t.Errorf("the caller's profile (-before +after):\n%s", diff)
	}
}

func TestLongValuesAreShortenedInErrors(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]string{40: strings.Repeat("z", 40) + `"`, 41: strings.Repeat("z", 40) + `..."`} {
		_, _, err := domainxml.Hostdevs([]domainxml.Handle{{ARQ: "a", Type: "PCI", Info: pciInfo("0000", strings.Repeat("z", length), "0", "1")}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d characters: %v", length, err)
		}
	}
}

func TestErrorsNameTheDevice(t *testing.T) {
	t.Parallel()
	twice := domainxml.Hostdev{PCI: &domainxml.PCIAddress{Bus: 0x0c, Function: 1}}
	invalid := domainxml.Hostdev{PCI: &domainxml.PCIAddress{Bus: 0x0c, Slot: 32}}
	for arq, want := range map[string][2]string{
		"": {
			"domainxml: pci 0000:0c:00.1: device already present: device 1 of the list has it",
			"domainxml: pci 0000:0c:20.0: invalid device: PCI address 0000:0c:20.0: slot does not fit in 5 bits",
		},
		"arq-1": {
			"domainxml: pci 0000:0c:00.1 of accelerator request arq-1: device already present: accelerator request arq-1 has it",
			"domainxml: pci 0000:0c:20.0 of accelerator request arq-1: invalid device: PCI address 0000:0c:20.0: slot does not fit in 5 bits",
		},
	} {
		twice.ARQ, invalid.ARQ = arq, arq
		for i, list := range [][]domainxml.Hostdev{{twice, twice}, {invalid}} {
			if _, err := domainxml.Merge(inputs(t)["nova-order"], list); err == nil || err.Error() != want[i] {
				t.Errorf("error %q, want %q", err, want[i])
			}
		}
	}
}

func TestVLANTagsReachTheirLimit(t *testing.T) {
	t.Parallel()
	for vlan, valid := range map[int]bool{-1: false, 0: true, 4094: true, 4095: false} {
		if _, _, err := domainxml.Interfaces([]domainxml.PortHandle{port("PCI", vlan)}); (err == nil) != valid {
			t.Errorf("VLAN %d: %v", vlan, err)
		}
	}
}
