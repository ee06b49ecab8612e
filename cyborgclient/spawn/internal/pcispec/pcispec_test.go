package pcispec_test

import (
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/pcispec"
	"github.com/gocyborg/gocyborg/domainxml"
)

// A value of [pci]device_spec is read or refused, and an entry that was read matches
// the same addresses when it is read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"address": "0000:0a:00.*"}`, `{"address": "*:0a:00.*", "physical_network": "x"}`, `{"address": "*"}`,
		`[{"vendor_id": "8086"}, {"address": {"bus": "0[a-c]"}}]`, `{"address": {"function": "("}}`, `{"address": "0a:00.9"}`, `null`, `[null]`,
	} {
		f.Add(seed, uint16(0), byte(0x0a), byte(0), byte(1))
	}
	f.Fuzz(func(t *testing.T, text string, domain uint16, bus, slot, function byte) {
		specs, err := pcispec.Parse(text)
		if err != nil {
			return
		}
		address := domainxml.PCIAddress{Domain: uint(domain), Bus: uint(bus), Slot: uint(slot & 31), Function: uint(function & 7)}
		matches := func(s pcispec.Spec) bool { return s.Matches(address) }
		for _, spec := range specs {
			if !matches(spec) {
				continue
			}
			again, err := pcispec.Parse(spec.String())
			if err != nil || !slices.ContainsFunc(again, matches) {
				t.Errorf("%s matches %s, but not when read again: %v", spec, address, err)
			}
		}
	})
}

func TestMatches(t *testing.T) {
	t.Parallel()
	address := domainxml.PCIAddress{Bus: 0x3b, Slot: 0x0a, Function: 1}
	for text, want := range map[string]bool{
		`{"address": "0000:3b:0a.1"}`:                  true,
		`{"address": "00000000:3B:a.1"}`:               true,
		`{"address": "10000:3b:0a.1"}`:                 false,
		`{"address": "3b:0a.*"}`:                       true,
		`{"address": "3b:0a.0"}`:                       false,
		`{"address": {"bus": "3[a-c]", "slot": "0a"}}`: true,
		`{"address": {"bus": "3"}}`:                    false,
		`{"vendor_id": "10de"}`:                        false,
	} {
		specs, err := pcispec.Parse(text)
		if err != nil || len(specs) != 1 || specs[0].Matches(address) != want {
			t.Errorf("%s: %v, %v; want a match: %t", text, specs, err, want)
		}
	}
}
