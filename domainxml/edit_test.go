package domainxml_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"libvirt.org/go/libvirtxml"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/domainxml"
)

func TestDiffListsMissingPresentAndForeignDevices(t *testing.T) {
	t.Parallel()
	domain := inputs(t)["nova-order"] // has pci 3b:00.0, mdev 51e3..., and an interface on 0d:00.1
	nic := onePort(t, 0)
	nic.PCI, nic.Interface = &domainxml.PCIAddress{Bus: 0x0d, Function: 1}, nil
	tests := []struct {
		name                      string
		devices                   []domainxml.Hostdev
		missing, present, foreign []string
	}{
		{"nothing wanted", nil, []string{}, []string{}, []string{"pci 0000:3b:00.0", "mdev " + mdevUUID2}},
		{
			"one of two",
			[]domainxml.Hostdev{{ARQ: "a", PCI: &domainxml.PCIAddress{Bus: 0x3b}}, {ARQ: "b", MDEV: mdevUUID}},
			[]string{"b mdev " + mdevUUID},
			[]string{"a pci 0000:3b:00.0"},
			[]string{"mdev " + mdevUUID2},
		},
		{
			"an mdev in upper case",
			[]domainxml.Hostdev{{ARQ: "a", MDEV: strings.ToUpper(mdevUUID2)}},
			[]string{},
			[]string{"a mdev " + mdevUUID2},
			[]string{"pci 0000:3b:00.0"},
		},
		{
			"a host device is no interface",
			[]domainxml.Hostdev{nic},
			[]string{"arq-port pci 0000:0d:00.1"},
			[]string{},
			[]string{"pci 0000:3b:00.0", "mdev " + mdevUUID2},
		},
		{
			"an interface is no host device",
			[]domainxml.Hostdev{onePort(t, 0)},
			[]string{"arq-port pci 0000:0c:00.1"},
			[]string{},
			[]string{"pci 0000:3b:00.0", "mdev " + mdevUUID2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := domainxml.Diff(domain, tt.devices)
			if err != nil {
				t.Fatal(err)
			}
			want := [][]string{tt.missing, tt.present, tt.foreign}
			if diff := cmp.Diff(want, [][]string{names(got.Missing), names(got.Present), names(got.Foreign)}); diff != "" {
				t.Errorf("missing, present, foreign (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompleteAddsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	devices := mustHostdevs(t, "PCI", "MDEV")
	for name, domain := range inputs(t) {
		once := edited(t, domainxml.Complete, domain, devices)
		merged, err := domainxml.Merge(domain, devices)
		if err != nil || !bytes.Equal(once, merged) {
			t.Errorf("%s: Complete differs from Merge although nothing was there: %v", name, err)
		}
		twice, err := domainxml.Complete(once, devices)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s: a second Complete changed the domain: %v\n%s", name, err, twice)
		}
	}
	if _, err := domainxml.Complete(inputs(t)["flat"], append(devices, devices[0])); !errors.Is(err, domainxml.ErrDuplicate) {
		t.Errorf("a device twice in the list: error %v, want ErrDuplicate", err)
	}
}

// An accelerator request is bound again to another function of its host, and its port has another one
// then; the old one may be another instance's, or another port's.
func TestCompleteReplacesTheFunctionOfAPort(t *testing.T) {
	t.Parallel()
	const otherMAC, novaMAC = "52:54:00:1e:59:c4", "52:54:00:1e:59:c5"
	nic := func(function int, mac string) domainxml.Hostdev {
		handle := port("PCI", 0)
		handle.Info = map[string]any{"domain": "0000", "bus": "0d", "device": "0", "function": fmt.Sprint(function)}
		devices, _, err := domainxml.Interfaces([]domainxml.PortHandle{handle})
		if err != nil {
			t.Fatal(err)
		}
		d := devices[0]
		d.Interface.MAC.Address = mac
		return d
	}
	list := func(devices ...domainxml.Hostdev) []domainxml.Hostdev { return devices }
	nova := nic(7, novaMAC)
	for name, tt := range map[string]struct{ old, now []domainxml.Hostdev }{
		"nothing":            {list(nic(1, portMAC)), list(nic(1, portMAC))},
		"upper case":         {list(nic(1, strings.ToUpper(portMAC))), list(nic(1, portMAC))},
		"another function":   {list(nic(1, portMAC)), list(nic(2, portMAC))},
		"another address":    {list(nic(1, otherMAC)), list(nic(1, portMAC))},
		"swapped":            {list(nic(1, portMAC), nic(2, otherMAC)), list(nic(2, portMAC), nic(1, otherMAC))},
		"one of two":         {list(nic(1, portMAC), nic(2, otherMAC)), list(nic(3, portMAC), nic(2, otherMAC))},
		"the other one's":    {list(nic(1, portMAC), nic(2, otherMAC)), list(nic(2, portMAC), nic(3, otherMAC))},
		"both, one address":  {list(nic(1, portMAC), nic(2, portMAC)), list(nic(1, portMAC), nic(2, portMAC))},
		"both, one left":     {list(nic(1, portMAC), nic(2, portMAC)), list(nic(2, portMAC))},
		"none in the domain": {nil, list(nic(1, portMAC))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			domain := edited(t, domainxml.Merge, inputs(t)["flat"], append(tt.old, nova))
			full := edited(t, domainxml.Complete, domain, tt.now)
			if diff := cmp.Diff(ports(t, append(tt.now, nova)), portsOf(t, full), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
			if again, err := domainxml.Complete(full, tt.now); err != nil || !bytes.Equal(again, full) {
				t.Errorf("completed again: %v\n%s", err, again)
			}
		})
	}
}

// ports are the MAC addresses and functions of interfaces.
func ports(t *testing.T, devices []domainxml.Hostdev) (list []string) {
	t.Helper()
	for _, d := range devices {
		list = append(list, strings.ToLower(d.Interface.MAC.Address)+" "+fmt.Sprint(*d.Interface.Source.Hostdev.PCI.Address.Function))
	}
	return list
}

// portsOf returns the ports of the interfaces of a domain.
func portsOf(t *testing.T, domain []byte) []string {
	t.Helper()
	var d libvirtxml.Domain
	if err := d.Unmarshal(string(domain)); err != nil {
		t.Fatal(err)
	}
	var devices []domainxml.Hostdev
	for i := range d.Devices.Interfaces {
		devices = append(devices, domainxml.Hostdev{Interface: &d.Devices.Interfaces[i]})
	}
	return ports(t, devices)
}

// Whoever regenerates a domain takes over Nova's mediated devices of the old one;
// Cyborg's come from the accelerator requests and must not be there twice.
func TestForeignDevicesAreNovasOwn(t *testing.T) {
	t.Parallel()
	old := edited(t, domainxml.Merge, inputs(t)["nova-order"], mustHostdevs(t, "MDEV", "PCI"))
	diff, err := domainxml.Diff(old, mustHostdevs(t, "MDEV", "PCI"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pci 0000:3b:00.0", "mdev " + mdevUUID2}, names(diff.Foreign)); diff != "" {
		t.Errorf("Nova's own (-want +got):\n%s", diff)
	}
	regenerated := edited(t, domainxml.Merge, domainxml.NewDomain(domainxml.DomainOpts{}), diff.Foreign)
	if _, err := domainxml.Merge(regenerated, mustHostdevs(t, "MDEV", "PCI")); err != nil {
		t.Errorf("the regenerated domain does not take Cyborg's devices: %v", err)
	}
}

func TestRemoveIsTheInverseOfMerge(t *testing.T) {
	t.Parallel()
	devices := mustHostdevs(t, "PCI", "MDEV")
	for name, domain := range inputs(t) {
		merged := edited(t, domainxml.Merge, domain, devices)
		without := edited(t, domainxml.Remove, merged, devices)
		switch name {
		case "empty-domain", "empty-tag", "empty-pair", "no-devices", "compact-no-devices": // a devices element was made or opened
			if left, err := domainxml.Read(without); err != nil || len(left) > 0 {
				t.Errorf("%s: left %v, %v", name, left, err)
			}
		default:
			if diff := cmp.Diff(string(domain), string(without)); diff != "" {
				t.Errorf("%s (-before +after):\n%s", name, diff)
			}
		}
	}
}

func TestRemoveOfAnAbsentDeviceFails(t *testing.T) {
	t.Parallel()
	domain := inputs(t)["nova-order"]
	for name, edit := range map[string]func() ([]byte, error){
		"remove": func() ([]byte, error) {
			return domainxml.Remove(domain, []domainxml.Hostdev{{PCI: &domainxml.PCIAddress{Bus: 0x3b}}, {MDEV: mdevUUID}})
		},
		"remove an interface":  func() ([]byte, error) { return domainxml.Remove(domain, []domainxml.Hostdev{onePort(t, 0)}) },
		"replace":              func() ([]byte, error) { return domainxml.ReplaceMDEV(domain, mdevUUID, mdevUUID2[:35]+"0") },
		"detach":               func() ([]byte, error) { return domainxml.DetachXML(domain, domainxml.Hostdev{MDEV: mdevUUID}) },
		"detach an interface":  func() ([]byte, error) { return domainxml.DetachXML(domain, onePort(t, 0)) },
		"remove what it lacks": func() ([]byte, error) { return domainxml.Remove(domain, mustHostdevs(t, "PCI")) },
	} {
		if out, err := edit(); out != nil || !errors.Is(err, domainxml.ErrAbsent) {
			t.Errorf("%s: %s, %v; want only ErrAbsent", name, out, err)
		}
	}
	for name, err := range map[string]error{
		"no uuid":   errorOf(domainxml.ReplaceMDEV(domain, "x", mdevUUID)),
		"nor a new": errorOf(domainxml.ReplaceMDEV(domain, mdevUUID2, "x")),
		"no device": errorOf(domainxml.Remove(domain, []domainxml.Hostdev{{}})),
		"attach":    errorOf(domainxml.AttachXML(domainxml.Hostdev{})),
	} {
		if !errors.Is(err, domainxml.ErrDevice) {
			t.Errorf("%s: error %v, want ErrDevice", name, err)
		}
	}
	if _, err := domainxml.ReplaceMDEV(domain, mdevUUID2, mdevUUID2); !errors.Is(err, domainxml.ErrDuplicate) {
		t.Errorf("by itself: error %v, want ErrDuplicate", err)
	}
}

func errorOf(_ []byte, err error) error { return err }

func TestReplaceMDEVChangesOnlyTheUUID(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"as libvirt writes it": `<address uuid='` + mdevUUID2 + `'/>`,
		"in upper case":        `<address uuid="` + strings.ToUpper(mdevUUID2) + `"/>`,
		"spread":               "<address\n\tuuid =\n'" + mdevUUID2 + "' />",
		"with a decoy":         `<!-- <address uuid="x"/> --><address note="a=b" uuid="` + mdevUUID2 + `"></address>`,
		"behind another":       `<vendor><address uuid='` + mdevUUID + `'/></vendor><address uuid='` + mdevUUID2 + `'/>`,
	} {
		before := `<domain type="kvm"><devices><hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci' display='on'><source>`
		after := `</source><alias name='ua-gpu'/><address type='pci' bus='0x05'/></hostdev></devices></domain>`
		got, err := domainxml.ReplaceMDEV([]byte(before+address+after), mdevUUID2, strings.ToUpper(mdevUUID))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		old := mdevUUID2
		if strings.Contains(address, strings.ToUpper(mdevUUID2)) {
			old = strings.ToUpper(mdevUUID2)
		}
		if diff := cmp.Diff(before+strings.Replace(address, old, mdevUUID, 1)+after, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The UUID is found by a pattern. Where an attribute before it has the same text in its value, the
// domain is refused, as it would keep the old device.
func TestReplaceMDEVRefusesATextThatItCannotChange(t *testing.T) {
	t.Parallel()
	domain := `<domain><devices><hostdev type="mdev"><source><address note=" uuid='1'" uuid='` + mdevUUID2 + `'/></source></hostdev></devices></domain>`
	if got, err := domainxml.ReplaceMDEV([]byte(domain), mdevUUID2, mdevUUID); got != nil || !errors.Is(err, domainxml.ErrNotDomain) {
		t.Errorf("ReplaceMDEV = %s, %v; want only ErrNotDomain", got, err)
	}
}

func TestOneDeviceDocuments(t *testing.T) {
	t.Parallel()
	devices := mustHostdevs(t, "PCI", "MDEV")
	for i, name := range []string{"attach-pci", "attach-mdev"} {
		golden(t, name, attachXML(t, devices[i]))
	}
	inDomain := `<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'><source><address uuid='` + mdevUUID + `'/></source><alias name='hostdev0'/></hostdev>`
	domain := []byte(`<domain><devices>` + inDomain + `</devices></domain>`)
	if got, err := domainxml.DetachXML(domain, devices[1]); err != nil || string(got) != inDomain+"\n" {
		t.Errorf("DetachXML = %s, %v; want the domain's own element", got, err)
	}
	merged := edited(t, domainxml.Merge, domain, []domainxml.Hostdev{onePort(t, 100)})
	attach := attachXML(t, onePort(t, 100))
	if detach, err := domainxml.DetachXML(merged, onePort(t, 100)); err != nil || !bytes.Equal(attach, detach) {
		t.Errorf("DetachXML of a port = %s, %v", detach, err)
	}
}

func TestNodeDeviceDocuments(t *testing.T) {
	t.Parallel()
	h := mixture("MDEV")[0]
	d, err := domainxml.NodeDeviceOf(h, "")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "nodedev", d.XML())
	h.Info = map[string]any{"asked_type": "mtty-2"}
	d, err = domainxml.NodeDeviceOf(h, "mtty_mtty")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "nodedev-mtty", d.XML())
	if d.Name != "" {
		t.Errorf("name %q of a device whose parent is not on the PCI bus: libvirt chooses it", d.Name)
	}

	noType, noAddress, noUUID := mixture("MDEV")[0], mixture("MDEV")[0], mixture("MDEV")[0]
	noType.Info = pciInfo("0", "10", "1", "0")
	noAddress.Info = map[string]any{"asked_type": "nvidia-223", "domain": "0", "bus": "10", "device": "1"}
	noUUID.UUID = ""
	for field, bad := range map[string]domainxml.Handle{"asked_type": noType, "function": noAddress, "uuid": noUUID, "type": mixture("PCI")[0]} {
		d, err := domainxml.NodeDeviceOf(bad, "")
		if (d != domainxml.NodeDevice{}) || !isAbout(err, bad.ARQ, bad.Type, field) {
			t.Errorf("NodeDeviceOf = %v, %v; want an error about %s", d, err, field)
		}
	}
}

// Nova 34 composes the names of a device and of its parent from the texts of the handle as they are. libvirt's names have an
// address with leading zeros, so that both agree on a handle of Cyborg's, also one that is written in another way.
func TestNodeDevicesHaveTheNamesOfLibvirt(t *testing.T) {
	t.Parallel()
	const uuid = "91ac1606-427e-44bb-8233-f4ff4bf3d241"
	for name, info := range map[string]map[string]any{
		"as Cyborg's agent reports it": pciInfo("0000", "0c", "01", "2"),
		"without leading zeros":        pciInfo("0", "c", "1", "2"),
		"with 0x, and in another case": pciInfo("0x0000", "0x0C", "0x01", "0x2"),
		"as numbers":                   {"domain": 0, "bus": 12, "device": 1, "function": 2},
	} {
		info["asked_type"] = "nvidia-223"
		d, err := domainxml.NodeDeviceOf(domainxml.Handle{ARQ: "a1", Type: "MDEV", UUID: strings.ToUpper(uuid), Info: info}, "")
		want := domainxml.NodeDevice{
			Name: "mdev_91ac1606_427e_44bb_8233_f4ff4bf3d241_0000_0c_01_2", Parent: "pci_0000_0c_01_2", Type: "nvidia-223", UUID: uuid,
		}
		if diff := cmp.Diff(want, d); diff != "" || err != nil {
			t.Errorf("%s: error %v; device (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestAPersistentDeviceIsDefined(t *testing.T) {
	t.Parallel()
	for lifetime, want := range map[domainxml.Lifetime][]string{
		"":                           {"nodedev-create"},
		domainxml.LifetimeTransient:  {"nodedev-create"},
		domainxml.LifetimePersistent: {"nodedev-define", "nodedev-start"},
		domainxml.LifetimeAutostart:  {"nodedev-define", "nodedev-autostart", "nodedev-start"},
	} {
		if diff := cmp.Diff(want, lifetime.Virsh()); diff != "" {
			t.Errorf("%q: commands (-want +got):\n%s", lifetime, diff)
		}
	}
}

// TestScenarios has the rows of Nova's own tests that are about the domain.
func TestScenarios(t *testing.T) {
	t.Parallel()
	domain := domainxml.NewDomain(domainxml.DomainOpts{})
	t.Run("libvirt_get_guest_config_accel_pci", func(t *testing.T) {
		t.Parallel()
		devices, skipped, err := domainxml.Hostdevs(mixture("PCI", "PCI2"))
		if err != nil || len(skipped) > 0 || len(devices) != 2 || devices[0].ARQ != "arq-pci" || devices[1].ARQ != "arq-pci2" {
			t.Errorf("%v, %v, %v; want the list intact", devices, skipped, err)
		}
	})
	t.Run("libvirt_get_guest_config_accel_nonpci", func(t *testing.T) {
		t.Parallel()
		devices, skipped, err := domainxml.Hostdevs(mixture("TEST_PCI"))
		if err != nil || len(skipped) != 1 || len(devices) != 0 {
			t.Errorf("%v, %v, %v; want an empty list", devices, skipped, err)
		}
	})
	t.Run("libvirt_spawn_with_and_without_accel_info", func(t *testing.T) {
		t.Parallel()
		for _, handles := range [][]domainxml.Handle{nil, {}} {
			devices := hostdevsOf(t, handles...)
			if merged, err := domainxml.Merge(domain, devices); err != nil || !bytes.Equal(domain, merged) {
				t.Errorf("without accelerators the domain became %s, %v", merged, err)
			}
		}
		merged := edited(t, domainxml.Merge, domain, mustHostdevs(t, "PCI", "PCI2"))
		if diff, err := domainxml.Diff(merged, mustHostdevs(t, "PCI", "PCI2")); err != nil || len(diff.Present) != 2 {
			t.Errorf("Diff = %+v, %v; want both present", diff, err)
		}
	})
	t.Run("vif_model_accelerator_direct", func(t *testing.T) {
		t.Parallel()
		text, err := domainxml.AttachXML(onePort(t, 0))
		if err != nil || strings.Contains(string(text), "<model") || !strings.Contains(string(text), `type="hostdev"`) {
			t.Errorf("%s, %v; want a hostdev interface without a model", text, err)
		}
	})
	t.Run("vif_hw_veb_driver_arq", func(t *testing.T) {
		t.Parallel()
		d := onePort(t, 100)
		i := d.Interface
		if i.MAC.Address != portMAC || i.VLan.Tags[0].ID != 100 || i.Managed != "yes" || d.PCI.String() != "0000:0c:00.1" {
			t.Errorf("interface %+v; want mac %s, vlan 100, pci 0000:0c:00.1", i, portMAC)
		}
	})
	t.Run("neutron_populate_profile", func(t *testing.T) {
		t.Parallel()
		got, err := domainxml.BindingProfile(nil, port("TEST_PCI", 0).Handle)
		want := map[string]any{"physical_network": "PHYNET1", "arq_uuid": "arq-port", "pci_slot": "0000:0c:0.1"}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("neutron_unbind_ports_clean_arq", func(t *testing.T) {
		t.Parallel()
		got := domainxml.CleanBindingProfile(map[string]any{
			"arq_uuid": "a", "pci_slot": "b", "physical_network": "c", "pci_vendor_info": "d", "allocation": "e",
			"card_serial_number": "f", "vf_num": 1, "pf_mac_address": "g", "device_mac_address": "h", "foreign": "kept",
		})
		if diff := cmp.Diff(map[string]any{"foreign": "kept"}, got); diff != "" {
			t.Errorf("profile (-want +got):\n%s", diff)
		}
	})
}

// TestCompleteFollowsTheRequests moves accelerator requests to other devices. Earlier domains
// have some of these. Domains of earlier versions had no aliases.
func TestCompleteFollowsTheRequests(t *testing.T) {
	t.Parallel()
	input := inputs(t)["nova-order"]
	rapid.Check(t, func(t *rapid.T) {
		domain := bytes.Clone(input)
		foreign := devicesOf(t, domain)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			var handles []domainxml.Handle
			devices := rapid.Permutation([]int{1, 2, 3, 4}).Draw(t, "devices")
			for n := range rapid.IntRange(0, 3).Draw(t, "requests") {
				handles = append(handles, domainxml.Handle{
					ARQ: fmt.Sprintf("4b1e7a2c-0000-4000-8000-00000000000%d", n), Type: domainxml.HandlePCI,
					Info: map[string]any{"domain": "0", "bus": "a", "device": fmt.Sprint(devices[n]), "function": "0"},
				})
			}
			want := hostdevsOf(t, handles...)
			domain = edited(t, domainxml.Complete, domain, want)
			if rapid.Bool().Draw(t, "of an earlier version") {
				old := regexp.MustCompile(`\s*<alias name="ua-arq-[^>]*>`).ReplaceAll(domain, nil)
				again, err := domainxml.Complete(old, want)
				if err != nil || !bytes.Equal(again, domain) {
					t.Fatalf("error %v, completed again:\n%s\nwant\n%s", err, again, domain)
				}
			}
			have := devicesOf(t, domain)
			if diff := cmp.Diff(slices.Sorted(slices.Values(names(slices.Concat(foreign, want)))), slices.Sorted(slices.Values(names(have)))); diff != "" {
				t.Fatalf("devices of the domain (-want +got):\n%s", diff)
			}
		}
	})
}

// An alias that others chose tells nothing: such a device is not removed.
func TestCompleteKeepsDevicesWithOtherAliases(t *testing.T) {
	t.Parallel()
	for alias, want := range map[string]int{
		"ua-arq-4b1e7a2c-0000-4000-8000-000000000001": 0, "ua-arq-": 1, "ua-arq-gpu": 1, "ua-gpu": 1, "hostdev0": 1,
		"4b1e7a2c-0000-4000-8000-000000000001": 1,
	} {
		domain := []byte(`<domain><devices><hostdev type='pci' mode='subsystem'><source><address bus='0x3b'/></source><alias name='` + alias + `'/></hostdev></devices></domain>`)
		complete := edited(t, domainxml.Complete, domain, nil)
		if left, err := domainxml.Read(complete); err != nil || len(left) != want {
			t.Errorf("alias %s: %v remain, %v; want %d", alias, left, err, want)
		}
	}
}
