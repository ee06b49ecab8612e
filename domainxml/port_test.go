package domainxml_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/domainxml"
)

const portMAC = "52:54:00:1e:59:c3"

func port(kind string, vlan int) domainxml.PortHandle {
	info := pciInfo("0000", "0c", "0", "1")
	info["physical_network"] = "PHYNET1"
	return domainxml.PortHandle{Handle: domainxml.Handle{ARQ: "arq-port", Type: kind, Info: info}, MAC: portMAC, VLAN: vlan}
}

func onePort(t testing.TB, vlan int) domainxml.Hostdev {
	t.Helper()
	devices, _, err := domainxml.Interfaces([]domainxml.PortHandle{port("PCI", vlan)})
	if err != nil {
		t.Fatal(err)
	}
	return devices[0]
}

func TestPortsBecomeInterfaces(t *testing.T) {
	t.Parallel()
	for name, vlan := range map[string]int{"port-vlan": 100, "port": 0} {
		golden(t, name, attachXML(t, onePort(t, vlan)))
	}
	devices, skipped, err := domainxml.Interfaces([]domainxml.PortHandle{port("TEST_PCI", 0)})
	if err != nil || len(devices) != 0 || len(skipped) != 1 {
		t.Errorf("TEST_PCI: %v, %v, %v; want it skipped", devices, skipped, err)
	}
}

func TestBadPortsAreErrorsThatNameRequestAndField(t *testing.T) {
	t.Parallel()
	change := func(f func(*domainxml.PortHandle)) []domainxml.PortHandle {
		p := port("PCI", 100)
		f(&p)
		other := port("PCI", 0)
		other.ARQ, other.Info = "arq-good", pciInfo("0", "1", "2", "3")
		return []domainxml.PortHandle{other, p}
	}
	tests := []struct {
		name  string
		ports []domainxml.PortHandle
		field string
	}{
		{"MDEV", change(func(p *domainxml.PortHandle) { p.Type = "MDEV" }), "type"},
		{"unbound", change(func(p *domainxml.PortHandle) { p.Type = "" }), "type"},
		{"bad bus", change(func(p *domainxml.PortHandle) { p.Info["bus"] = "x" }), "bus"},
		{"no MAC", change(func(p *domainxml.PortHandle) { p.MAC = "" }), "mac"},
		{"a long MAC", change(func(p *domainxml.PortHandle) { p.MAC = "02:00:5e:10:00:00:00:01" }), "mac"},
		{"VLAN too high", change(func(p *domainxml.PortHandle) { p.VLAN = 4095 }), "vlan"},
		{"negative VLAN", change(func(p *domainxml.PortHandle) { p.VLAN = -1 }), "vlan"},
		{"the other's function", change(func(p *domainxml.PortHandle) { p.Info = pciInfo("0", "1", "2", "3") }), "device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			devices, skipped, err := domainxml.Interfaces(tt.ports)
			if devices != nil || skipped != nil || !isAbout(err, "arq-port", tt.ports[len(tt.ports)-1].Type, tt.field) {
				t.Errorf("Interfaces = %v, %v, %v; want only an error about %s of arq-port", devices, skipped, err, tt.field)
			}
		})
	}
}

func TestInterfacesAndHostDevicesMergeTogether(t *testing.T) {
	t.Parallel()
	devices := append(mustHostdevs(t, "MDEV", "PCI2"), onePort(t, 100))
	for name, domain := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged := edited(t, domainxml.Merge, domain, devices)
			wantPresent(t, merged, devices...)
			for _, d := range devices {
				again, err := domainxml.Merge(merged, []domainxml.Hostdev{d})
				if again != nil || !errors.Is(err, domainxml.ErrDuplicate) {
					t.Errorf("%s again: %s, %v; want ErrDuplicate", d, again, err)
				}
			}
			golden(t, "port-"+name, merged)
		})
	}
}

// Without a host device, nothing is inserted at the place of host devices.
func TestAPortAloneAddsOneElement(t *testing.T) {
	t.Parallel()
	const domain = "<domain>\n  <devices>\n    <interface type='user'/>\n    <console type='pty'/>\n  </devices>\n</domain>\n"
	element := attachXML(t, onePort(t, 0))
	indented := strings.ReplaceAll(strings.TrimSpace(string(element)), "\n", "\n    ")
	want := strings.Replace(domain, "    <console", "    "+indented+"\n    <console", 1)
	merged, err := domainxml.Merge([]byte(domain), []domainxml.Hostdev{onePort(t, 0)})
	if diff := cmp.Diff(want, string(merged)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAFunctionCannotBeHostDeviceAndInterface(t *testing.T) {
	t.Parallel()
	host := mustHostdevs(t, "PCI")[0]
	for _, list := range [][]domainxml.Hostdev{{host, onePort(t, 0)}, {onePort(t, 0), host}} {
		merged, err := domainxml.Merge(domainxml.NewDomain(domainxml.DomainOpts{}), list)
		if merged != nil || !errors.Is(err, domainxml.ErrDuplicate) {
			t.Errorf("Merge = %s, %v; want ErrDuplicate", merged, err)
		}
	}
	both := host
	both.Interface = onePort(t, 0).Interface
	other := onePort(t, 0)
	other.PCI = &domainxml.PCIAddress{Bus: 1}
	empty := onePort(t, 0)
	empty.Interface.Source = nil
	for name, d := range map[string]domainxml.Hostdev{"both": both, "another address": other, "no source": empty} {
		if _, err := domainxml.AttachXML(d); !errors.Is(err, domainxml.ErrDevice) {
			t.Errorf("%s: error %v, want ErrDevice", name, err)
		}
	}
}

func TestTheBindingProfileIsNovas(t *testing.T) {
	t.Parallel()
	own := map[string]any{"trusted": "true", "pci_slot": "old"}
	for _, kind := range []string{"PCI", "TEST_PCI"} {
		got, err := domainxml.BindingProfile(own, port(kind, 0).Handle)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"trusted": "true", "physical_network": "PHYNET1", "pci_slot": "0000:0c:0.1", "arq_uuid": "arq-port"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("profile (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]any{"trusted": "true"}, domainxml.CleanBindingProfile(got)); diff != "" {
			t.Errorf("cleaned profile (-want +got):\n%s", diff)
		}
	}
	if own["pci_slot"] != "old" || len(own) != 2 {
		t.Errorf("the profile given was changed: %v", own)
	}
	odd := domainxml.Handle{ARQ: "a", Type: "PCI", Info: map[string]any{
		"domain": "0x0000", "bus": json.Number("12"), "device": float64(0), "function": 1, "physical_network": "n",
	}}
	if got, err := domainxml.BindingProfile(nil, odd); err != nil || got["pci_slot"] != "0000:c:0.1" {
		t.Errorf("BindingProfile = %v, %v", got, err)
	}
}

func TestAPortWithoutItsNetworkHasNoProfile(t *testing.T) {
	t.Parallel()
	without := port("PCI", 0).Handle
	delete(without.Info, "physical_network")
	badBus := port("PCI", 0).Handle
	badBus.Info["bus"] = "g"
	mdev := port("MDEV", 0).Handle
	for field, h := range map[string]domainxml.Handle{"physical_network": without, "bus": badBus, "type": mdev} {
		got, err := domainxml.BindingProfile(nil, h)
		if got != nil || !errors.Is(err, domainxml.ErrHandle) || !strings.Contains(err.Error(), field) {
			t.Errorf("BindingProfile = %v, %v; want an error about %s", got, err, field)
		}
	}
}
