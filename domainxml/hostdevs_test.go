package domainxml_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/domainxml"
)

const (
	mdevUUID  = "91ac1606-427e-44bb-8233-f4ff4bf3d241"
	mdevUUID2 = "51e314cb-59ee-4896-8b40-54953ee00227"
)

func pciInfo(domain, bus, device, function any) map[string]any {
	return map[string]any{"domain": domain, "bus": bus, "device": device, "function": function}
}

func TestPCIHandlesAcceptEveryFormOfAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		info map[string]any
		want string
	}{
		{"as Cyborg writes it", pciInfo("0000", "0c", "00", "1"), "0000:0c:00.1"},
		{"unpadded, as the fake driver writes it", pciInfo("0000", "0c", "2", "7"), "0000:0c:02.7"},
		{"with 0x and upper case", pciInfo("0x0000", "0X3B", "0x1F", "0x0"), "0000:3b:1f.0"},
		{"digits are hexadecimal without 0x", pciInfo("10", "10", "10", "1"), "0010:10:10.1"},
		{"highest of each range", pciInfo("ffff", "ff", "1f", "7"), "ffff:ff:1f.7"},
		{"more padding than needed", pciInfo("000000", "000c", "0000", "0001"), "0000:0c:00.1"},
		{"JSON numbers are taken at their value", pciInfo(float64(0), float64(12), json.Number("16"), json.Number("1")), "0000:0c:10.1"},
		{"Go integers too", pciInfo(0, 12, 0, 1), "0000:0c:00.1"},
		{"foreign keys are no matter", map[string]any{"domain": "0", "bus": "1", "device": "2", "function": "3",
			"physical_network": "physnet0", "network_id": true}, "0000:01:02.3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			devices, skipped, err := domainxml.Hostdevs([]domainxml.Handle{{ARQ: "arq-1", Type: "PCI", Info: tt.info}})
			if err != nil || len(skipped) != 0 || len(devices) != 1 {
				t.Fatalf("Hostdevs = %v, %v, %v; want one device", devices, skipped, err)
			}
			if got := devices[0].PCI.String(); got != tt.want {
				t.Errorf("address = %s, want %s", got, tt.want)
			}
			if h := devices[0].Hostdev; h.Managed != "yes" || *h.SubsysPCI.Source.Address.Slot != devices[0].PCI.Slot {
				t.Errorf("hostdev = %+v; want a managed one at the address", h)
			}
		})
	}
}

func TestBadHandlesAreErrorsThatNameRequestAndField(t *testing.T) {
	t.Parallel()
	good := func() map[string]any { return pciInfo("0000", "0c", "00", "1") }
	with := func(key string, value any) map[string]any {
		info := good()
		info[key] = value
		return info
	}
	without := func(key string) map[string]any {
		info := good()
		delete(info, key)
		return info
	}
	tests := []struct {
		name, kind, uuid string
		info             map[string]any
		field, text      string
	}{
		{"no handle", "", "", nil, "type", "not bound"},
		{"unknown type", "USB", "", good(), "type", "unknown"},
		{"type in lower case", "pci", "", good(), "type", "unknown"},
		{"no info", "PCI", "", nil, "domain", "missing from the handle's info, which has no keys"},
		{"no domain", "PCI", "", without("domain"), "domain", "missing from the handle's info, which has bus, device, function"},
		{"no bus", "PCI", "", without("bus"), "bus", "missing"},
		{"no device", "PCI", "", without("device"), "device", "missing"},
		{"no function", "PCI", "", without("function"), "function", "missing"},
		{"null", "PCI", "", with("bus", nil), "bus", "missing"},
		{"empty", "PCI", "", with("domain", ""), "domain", "not a hexadecimal number"},
		{"only 0x", "PCI", "", with("bus", "0x"), "bus", "not a hexadecimal number"},
		{"not hexadecimal", "PCI", "", with("bus", "0g"), "bus", `"0g" is not`},
		{"sign", "PCI", "", with("bus", "-1"), "bus", "not a hexadecimal number"},
		{"white space", "PCI", "", with("bus", " c"), "bus", "not a hexadecimal number"},
		{"underscore", "PCI", "", with("domain", "0_0"), "domain", "not a hexadecimal number"},
		{"domain too large", "PCI", "", with("domain", "10000"), "domain", "16 bits"},
		{"bus too large", "PCI", "", with("bus", "13b"), "bus", "8 bits"},
		{"slot too large", "PCI", "", with("device", "20"), "device", "5 bits"},
		{"function too large", "PCI", "", with("function", "8"), "function", "3 bits"},
		{"beyond 64 bits", "PCI", "", with("bus", strings.Repeat("f", 17)), "bus", "8 bits"},
		{"fraction", "PCI", "", with("bus", 1.5), "bus", "not an integer"},
		{"negative number", "PCI", "", with("bus", -1), "bus", "not an integer"},
		{"huge number", "PCI", "", with("bus", 1e300), "bus", "not an integer"},
		{"largest of 32 bits", "PCI", "", with("bus", float64(math.MaxUint32)), "bus", "8 bits"},
		{"number too large", "PCI", "", with("bus", json.Number("256")), "bus", "8 bits"},
		{"bad number", "PCI", "", with("bus", json.Number("x")), "bus", "not a number"},
		{"list", "PCI", "", with("bus", []any{"0c"}), "bus", "[]interface {}"},
		{"mdev without uuid", "MDEV", "", good(), "uuid", "not a UUID"},
		{"mdev with another text", "MDEV", "nvidia-223", good(), "uuid", "not a UUID"},
		{"mdev uuid too long", "MDEV", mdevUUID + "0", good(), "uuid", "not a UUID"},
		{"mdev uuid with odd dashes", "MDEV", "91ac-1606427e44bb8233f4ff4bf3d241000", good(), "uuid", "not a UUID"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			devices, skipped, err := domainxml.Hostdevs([]domainxml.Handle{
				{ARQ: "arq-good", Type: "PCI", Info: pciInfo("0", "1", "2", "3")},
				{ARQ: "arq-bad", Type: tt.kind, UUID: tt.uuid, Info: tt.info},
			})
			if !errors.Is(err, domainxml.ErrHandle) || devices != nil || skipped != nil {
				t.Fatalf("Hostdevs = %v, %v, %v; want only ErrHandle", devices, skipped, err)
			}
			if !isAbout(err, "arq-bad", tt.kind, tt.field) {
				t.Errorf("error = %v; want one for arq-bad, type %q, field %q", err, tt.kind, tt.field)
			}
			if !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), "arq-bad") {
				t.Errorf("error text %q does not name arq-bad and %q", err, tt.text)
			}
		})
	}
}

func TestEveryBadFieldOfEveryHandleIsReported(t *testing.T) {
	t.Parallel()
	_, _, err := domainxml.Hostdevs([]domainxml.Handle{
		{ARQ: "arq-1", Type: "PCI", Info: map[string]any{"domain": "0", "bus": "100", "device": "0"}},
		{ARQ: "arq-2", Type: "MDEV", UUID: "x"},
	})
	for _, want := range []string{"arq-1 (type \"PCI\"): bus", "arq-1 (type \"PCI\"): function", "arq-2 (type \"MDEV\"): uuid"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not report %q", err, want)
		}
	}
}

func TestMixtureComposesPerHandleAndListsTestHandles(t *testing.T) {
	t.Parallel()
	devices, skipped, err := domainxml.Hostdevs([]domainxml.Handle{
		{ARQ: "arq-1", Type: "TEST_PCI", Info: pciInfo("0000", "0c", "0", "0")},
		{ARQ: "arq-2", Type: "MDEV", UUID: strings.ToUpper(mdevUUID)},
		{ARQ: "arq-3", Type: "PCI", Info: pciInfo("0000", "3b", "00", "0")},
		{ARQ: "arq-4", Type: "MDEV", UUID: strings.ReplaceAll(mdevUUID2, "-", "")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"arq-2 mdev " + mdevUUID, "arq-3 pci 0000:3b:00.0", "arq-4 mdev " + mdevUUID2}
	if diff := cmp.Diff(want, names(devices)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]domainxml.Handle{{ARQ: "arq-1", Type: "TEST_PCI", Info: pciInfo("0000", "0c", "0", "0")}}, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestTwoHandlesOfOneDeviceAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string][2]domainxml.Handle{
		"pci": {{ARQ: "arq-1", Type: "PCI", Info: pciInfo("0000", "0c", "00", "1")},
			{ARQ: "arq-2", Type: "PCI", Info: pciInfo("0x0", "0xC", "0", "1")}},
		"mdev": {{ARQ: "arq-1", Type: "MDEV", UUID: mdevUUID}, {ARQ: "arq-2", Type: "MDEV", UUID: strings.ToUpper(mdevUUID)}},
	}
	for name, handles := range tests {
		_, _, err := domainxml.Hostdevs(handles[:])
		if !errors.Is(err, domainxml.ErrDuplicate) || !errors.Is(err, domainxml.ErrHandle) {
			t.Errorf("%s: Hostdevs = %v; want ErrDuplicate and ErrHandle", name, err)
			continue
		}
		if !strings.Contains(err.Error(), "arq-1") || !strings.Contains(err.Error(), "arq-2") {
			t.Errorf("%s: error %q does not name both requests", name, err)
		}
	}
}

func TestNoHandlesGiveNoDevices(t *testing.T) {
	t.Parallel()
	devices, skipped, err := domainxml.Hostdevs(nil)
	if err != nil || len(devices) != 0 || len(skipped) != 0 {
		t.Errorf("Hostdevs(nil) = %v, %v, %v; want nothing", devices, skipped, err)
	}
}

func TestEveryAddressInRangeIsReadBackFromItsText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawAddress(t)
		format := rapid.SampledFrom([]func(uint) any{
			func(n uint) any { return float64(n) },
			func(n uint) any { return hex("%x", n) },
			func(n uint) any { return hex("0x%X", n) },
			func(n uint) any { return hex("%08x", n) },
		}).Draw(t, "format")
		devices := hostdevsOf(t, domainxml.Handle{ARQ: "arq", Type: "PCI",
			Info: pciInfo(format(want.Domain), format(want.Bus), format(want.Slot), format(want.Function))})
		if diff := cmp.Diff(want, *devices[0].PCI); diff != "" {
			t.Errorf("address (-want +got):\n%s", diff)
		}
	})
}

func TestMdevTag(t *testing.T) {
	t.Parallel()
	asked := map[string]any{"asked_type": "nvidia-223"}
	tests := []struct {
		name    string
		handles []domainxml.Handle
		want    string
	}{
		{"no handles", nil, domainxml.TagCompute},
		{"an mdev of Cyborg", []domainxml.Handle{{Type: "MDEV", UUID: mdevUUID, Info: asked}}, domainxml.TagAccelerator},
		{"one among others", []domainxml.Handle{{Type: "PCI", UUID: "x", Info: asked}, {Type: "MDEV", UUID: mdevUUID, Info: asked}},
			domainxml.TagAccelerator},
		{"only PCI", []domainxml.Handle{{Type: "PCI", UUID: mdevUUID, Info: asked}}, domainxml.TagCompute},
		{"no handle UUID", []domainxml.Handle{{Type: "MDEV", Info: asked}}, domainxml.TagCompute},
		{"no asked type", []domainxml.Handle{{Type: "MDEV", UUID: mdevUUID}}, domainxml.TagCompute},
		{"null asked type", []domainxml.Handle{{Type: "MDEV", UUID: mdevUUID, Info: map[string]any{"asked_type": nil}}}, domainxml.TagCompute},
		{"empty asked type", []domainxml.Handle{{Type: "MDEV", UUID: mdevUUID, Info: map[string]any{"asked_type": ""}}}, domainxml.TagCompute},
	}
	for _, tt := range tests {
		if got := domainxml.MdevTag(tt.handles); got != tt.want {
			t.Errorf("%s: MdevTag = %s, want %s", tt.name, got, tt.want)
		}
	}
}
