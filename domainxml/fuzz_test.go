package domainxml_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
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
	f.Add("TEST_PCI", "", `null`)
	f.Add("", "", `[]`)
	f.Fuzz(func(t *testing.T, kind, uuid, info string) {
		h := domainxml.Handle{ARQ: "arq", Type: kind, UUID: uuid}
		if json.Unmarshal([]byte(info), &h.Info) != nil {
			t.Skip("the handle information is no JSON object")
		}
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

func roundTrip(t *testing.T, d domainxml.Device) {
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
	merged, err := domainxml.Merge(domainxml.NewDomain(domainxml.DomainOpts{}), []domainxml.Device{d})
	if err != nil {
		t.Fatal(err)
	}
	got, err := domainxml.Read(merged)
	if err != nil {
		t.Fatal(err)
	}
	d.ARQ = ""
	if diff := cmp.Diff([]domainxml.Device{d}, got); diff != "" {
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
		had, err := domainxml.Read(domain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := domainxml.Read(merged)
		if err != nil {
			t.Fatalf("%v, after a merge that gave\n%s", err, merged)
		}
		want := append(names(had), devices[0].String(), devices[1].String())
		if diff := cmp.Diff(want, names(got)); diff != "" {
			t.Errorf("devices (-want +got):\n%s\n%s", diff, merged)
		}
		insertion(t, domain, merged)
	})
}
