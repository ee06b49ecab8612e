package domainxml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/domainxml"
)

// names lists devices as text, each behind its request if it has one.
func names(devices []domainxml.Hostdev) []string {
	list := []string{}
	for _, d := range devices {
		list = append(list, strings.TrimSpace(d.ARQ+" "+d.String()))
	}
	return list
}

// has reports whether a domain has the device.
func has(domain []byte, d domainxml.Hostdev) (bool, error) {
	diff, err := domainxml.Diff(domain, []domainxml.Hostdev{d})
	return len(diff.Present) == 1, err
}

// isAbout reports whether err names this field of an accelerator request's handle.
func isAbout(err error, arq, kind, field string) bool {
	return errors.Is(err, domainxml.ErrHandle) &&
		strings.Contains(err.Error(), fmt.Sprintf("accelerator request %s (type %q): %s: ", arq, kind, field))
}

func hex(format string, n uint) string { return fmt.Sprintf(format, n) }

func drawAddress(t *rapid.T) domainxml.PCIAddress {
	return domainxml.PCIAddress{
		Domain:   rapid.UintRange(0, 1<<16-1).Draw(t, "domain"),
		Bus:      rapid.UintRange(0, 1<<8-1).Draw(t, "bus"),
		Slot:     rapid.UintRange(0, 1<<5-1).Draw(t, "slot"),
		Function: rapid.UintRange(0, 1<<3-1).Draw(t, "function"),
	}
}

// hostdevsOf are the devices of handles.
func hostdevsOf(t rapid.TB, handles ...domainxml.Handle) []domainxml.Hostdev {
	t.Helper()
	devices, _, err := domainxml.Hostdevs(handles)
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

func mustHostdevs(t testing.TB, kinds ...string) []domainxml.Hostdev {
	t.Helper()
	return hostdevsOf(t, mixture(kinds...)...)
}

// twoDevices are a PCI and a mediated device, made as the flow makes them.
func twoDevices(t testing.TB) []domainxml.Hostdev {
	t.Helper()
	return mustHostdevs(t, "PCI", "MDEV")
}

// edited is the domain that Merge, Complete or Remove makes.
func edited(t rapid.TB, edit func([]byte, []domainxml.Hostdev) ([]byte, error), domain []byte, devices []domainxml.Hostdev) []byte {
	t.Helper()
	text, err := edit(domain, devices)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// devicesOf are the devices that Read finds in a domain.
func devicesOf(t rapid.TB, domain []byte) []domainxml.Hostdev {
	t.Helper()
	devices, err := domainxml.Read(domain)
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

// attachXML is the document of a device.
func attachXML(t testing.TB, d domainxml.Hostdev) []byte {
	t.Helper()
	text, err := domainxml.AttachXML(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantPresent checks that a domain has the devices.
func wantPresent(t testing.TB, domain []byte, devices ...domainxml.Hostdev) {
	t.Helper()
	for _, d := range devices {
		if there, err := has(domain, d); err != nil || !there {
			t.Errorf("Has(%s) = %v, %v:\n%s", d, there, err, domain)
		}
	}
}

// insertion checks that merged is domain with one piece of text put in and gives
// that piece. The one byte that may go is the slash of an empty tag that was
// opened (<devices/> or <domain/>).
func insertion(t testing.TB, domain, merged []byte) string {
	t.Helper()
	if text, ok := cut(domain, merged, ""); ok {
		return text
	}
	if text, ok := cut(domain, merged, "/>"); ok && strings.HasPrefix(text, ">") {
		return text
	}
	t.Errorf("bytes outside the insertion changed\nbefore:\n%s\nafter:\n%s", domain, merged)
	return ""
}

// cut tries whether merged is domain with text in place of the piece gone.
func cut(domain, merged []byte, gone string) (string, bool) {
	before := 0
	for before < len(domain) && before < len(merged) && domain[before] == merged[before] {
		before++
	}
	if gone != "" {
		before = strings.LastIndex(string(domain[:min(before+len(gone), len(domain))]), gone)
		if before < 0 {
			return "", false
		}
	}
	// The text may begin with the bytes that follow it, so the longest common
	// head can reach into it; the tail then has to be measured from the end.
	tail := len(domain) - before - len(gone)
	if len(merged) < before+tail || string(merged[len(merged)-tail:]) != string(domain[len(domain)-tail:]) {
		return "", false
	}
	return string(merged[before : len(merged)-tail]), true
}
