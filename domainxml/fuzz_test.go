package domainxml_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"libvirt.org/go/libvirtxml"

	"github.com/gocyborg/gocyborg/domainxml"
)

// FuzzHostdevRoundTrip makes devices of a handle whose info is any JSON and
// checks that what is accepted comes back the same from libvirtxml and from a
// domain.
func FuzzHostdevRoundTrip(f *testing.F) {
	f.Add("PCI", "", `{"domain":"0000","bus":"0c","device":"0","function":"1"}`)
	f.Add("PCI", "", `{"domain":0,"bus":"0X3B","device":31,"function":"7","managed":true}`)
	f.Add("MDEV", mdevUUID, `{"asked_type":"nvidia-223"}`)
	f.Add("MDEV", "91AC1606427E44BB8233F4FF4BF3D241", `{}`)
	f.Add("MDEV", mdevUUID, `{"domain":"0","bus":"10","device":"1","function":"0","asked_type":"a<b&\u0001"}`)
	f.Add("PCI", "", `{"domain":"0x0","bus":"0c","device":0,"function":"1","physical_network":"PHYNET1"}`)
	f.Add("TEST_PCI", "", `null`)
	f.Add("", "", `[]`)
	f.Fuzz(func(t *testing.T, kind, uuid, info string) {
		h := domainxml.Handle{ARQ: "arq", Type: kind, UUID: uuid}
		if json.Unmarshal([]byte(info), &h.Info) != nil {
			t.Skip("the handle information is no JSON object")
		}
		otherForms(t, h)
		devices, skipped, err := domainxml.Hostdevs([]domainxml.Handle{h})
		if err != nil {
			if !errors.Is(err, domainxml.ErrHandle) || devices != nil {
				t.Fatalf("Hostdevs = %v, %v; want only ErrHandle", devices, err)
			}
			return
		}
		if len(devices)+len(skipped) != 1 {
			t.Fatalf("%d devices and %d skipped for one handle", len(devices), len(skipped))
		}
		for _, d := range devices {
			roundTrip(t, d)
		}
	})
}

// otherForms makes of a handle what else can be made of it: a port's interface, its
// binding profile, a node device. What is refused gives nothing.
func otherForms(t *testing.T, h domainxml.Handle) {
	t.Helper()
	devices, skipped, err := domainxml.Interfaces([]domainxml.PortHandle{{Handle: h, MAC: portMAC, VLAN: 100}})
	switch {
	case err != nil && (!errors.Is(err, domainxml.ErrHandle) || devices != nil || skipped != nil):
		t.Fatalf("Interfaces = %v, %v, %v; want only ErrHandle", devices, skipped, err)
	case len(devices) == 1:
		wantPresent(t, edited(t, domainxml.Merge, domainxml.NewDomain(domainxml.DomainOpts{}), devices), devices[0])
	}
	own := map[string]any{"kept": 1}
	profile, err := domainxml.BindingProfile(own, h)
	if (profile == nil) != (err != nil) || len(own) != 1 {
		t.Errorf("BindingProfile = %v, %v; it was given %v", profile, err, own)
	}
	if err == nil && !cmp.Equal(own, domainxml.CleanBindingProfile(profile)) {
		t.Errorf("the cleaned profile is %v", domainxml.CleanBindingProfile(profile))
	}
	node, err := domainxml.NodeDeviceOf(h, "")
	if (node == domainxml.NodeDevice{}) != (err != nil) || err != nil && !errors.Is(err, domainxml.ErrHandle) {
		t.Errorf("NodeDeviceOf = %v, %v", node, err)
	}
	if err == nil {
		var device libvirtxml.NodeDevice
		if err := xml.Unmarshal(node.XML(), &device); err != nil || device.Parent == "" {
			t.Errorf("the node device cannot be read: %v\n%s", err, node.XML())
		}
	}
}

func roundTrip(t *testing.T, d domainxml.Hostdev) {
	t.Helper()
	text, err := xml.Marshal(&d.Hostdev)
	if err != nil {
		t.Fatal(err)
	}
	var again libvirtxml.DomainHostdev
	if err := xml.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.Hostdev, again); diff != "" {
		t.Errorf("libvirtxml (-made +read):\n%s", diff)
	}
	got := devicesOf(t, edited(t, domainxml.Merge, domainxml.NewDomain(domainxml.DomainOpts{}), []domainxml.Hostdev{d}))
	d.ARQ = ""
	if diff := cmp.Diff([]domainxml.Hostdev{d}, got); diff != "" {
		t.Errorf("domain (-made +read):\n%s", diff)
	}
}

// FuzzMerge merges two devices into any text. What is accepted keeps every byte
// outside the insertion, and has its old devices and the two.
func FuzzMerge(f *testing.F) {
	for _, domain := range inputs(f) {
		f.Add(domain)
	}
	f.Add([]byte(`<domain><devices xmlns="x"/><x:devices/></domain>`))
	f.Add([]byte(`<domain type="/"></domain >`))
	f.Fuzz(func(t *testing.T, domain []byte) {
		devices := twoDevices(t)
		merged, err := domainxml.Merge(domain, devices)
		if err != nil {
			if merged != nil || !errors.Is(err, domainxml.ErrNotDomain) && !errors.Is(err, domainxml.ErrDuplicate) {
				t.Fatalf("Merge = %q, %v; want only a refusal", merged, err)
			}
			return
		}
		had := devicesOf(t, domain)
		got, err := domainxml.Read(merged)
		if err != nil {
			t.Fatalf("%v, after a merge that gave\n%s", err, merged)
		}
		interleaved(t, names(had), names(devices), names(got))
		insertion(t, domain, merged)
	})
}

// interleaved checks that got is the old devices and the added ones (behind
// their request), each in their order.
func interleaved(t testing.TB, had, added, got []string) {
	t.Helper()
	var old, fresh []string
	for _, name := range got {
		i := slices.IndexFunc(added, func(text string) bool { return strings.HasSuffix(text, name) })
		if i >= 0 {
			fresh = append(fresh, added[i])
		} else {
			old = append(old, name)
		}
	}
	if !slices.Equal(had, old) || !slices.Equal(added, fresh) {
		t.Errorf("got %v; want %v and %v, each in order", got, had, added)
	}
}

// FuzzEdit takes two devices out of any text again that were merged into it, and
// swaps one for another: nothing else may change, and a refusal gives nothing.
func FuzzEdit(f *testing.F) {
	for _, domain := range inputs(f) {
		f.Add(domain)
	}
	f.Add([]byte(`<domain><devices><hostdev type="mdev"><source><address x=" uuid='1'" uuid = '` + mdevUUID2 + `'/></source></hostdev></devices></domain>`))
	f.Fuzz(func(t *testing.T, domain []byte) {
		had, err := domainxml.Read(domain)
		if err != nil {
			for name, edit := range map[string]func() ([]byte, error){
				"Remove":      func() ([]byte, error) { return domainxml.Remove(domain, twoDevices(t)) },
				"Complete":    func() ([]byte, error) { return domainxml.Complete(domain, twoDevices(t)) },
				"ReplaceMDEV": func() ([]byte, error) { return domainxml.ReplaceMDEV(domain, mdevUUID2, mdevUUID) },
				"DetachXML":   func() ([]byte, error) { return domainxml.DetachXML(domain, twoDevices(t)[0]) },
			} {
				if out, err := edit(); out != nil || !errors.Is(err, domainxml.ErrNotDomain) {
					t.Fatalf("%s = %q, %v; want only ErrNotDomain", name, out, err)
				}
			}
			return
		}
		requested := twoDevices(t)
		for i, arq := range []string{mdevUUID, mdevUUID2} {
			requested[i].ARQ = arq
		}
		before, err := domainxml.Diff(domain, requested)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := domainxml.Complete(domain, requested)
		if err != nil {
			return // one is an interface already
		}
		diff, err := domainxml.Diff(merged, requested)
		if err != nil || len(diff.Missing) > 0 || len(diff.Stale) > 0 || len(diff.Present) != 2 {
			t.Fatalf("Diff = %+v, %v after Complete", diff, err)
		}
		again, err := domainxml.Complete(merged, requested)
		if err != nil || !bytes.Equal(again, merged) {
			t.Fatalf("completed again:\n%s, %v, want\n%s", again, err, merged)
		}
		left := devicesOf(t, edited(t, domainxml.Remove, merged, diff.Present))
		others := func(list []domainxml.Hostdev) []string { // one of the two may be there twice
			return names(slices.DeleteFunc(list, func(d domainxml.Hostdev) bool {
				return d.String() == diff.Present[0].String() || d.String() == diff.Present[1].String()
			}))
		}
		want := slices.DeleteFunc(others(had), func(name string) bool { return slices.Contains(names(before.Stale), name) })
		if !slices.Equal(want, others(left)) {
			t.Errorf("after Remove: %v, want %v", others(left), want)
		}
		const other = "aaaaaaaa-0000-4000-8000-00000000ffff"
		swapped, err := domainxml.ReplaceMDEV(merged, mdevUUID, other)
		if err != nil {
			if swapped != nil {
				t.Errorf("ReplaceMDEV = %q with error %v", swapped, err)
			}
			return
		}
		if len(swapped) < len(merged)-64 || len(swapped) > len(merged)+64 {
			t.Errorf("ReplaceMDEV changed %d bytes into %d", len(merged), len(swapped))
		}
	})
}
