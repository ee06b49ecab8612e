package spawn

import (
	"slices"
	"testing"
)

// Whatever stands in [pci]device_spec, it is read or refused, and what was read
// can be read again and fits the same addresses.
func FuzzPCIDeviceSpec(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"address": "0000:0a:00.*"}`, `{"address": "*:0a:00.*", "physical_network": "x"}`, `{"address": "*"}`,
		`[{"vendor_id": "8086"}, {"address": {"bus": "0[a-c]"}}]`, `{"address": {"function": "("}}`, `{"address": "0a:00.9"}`, `null`, `[null]`,
	} {
		f.Add(seed, uint16(0), byte(0x0a), byte(0), byte(1))
	}
	f.Fuzz(func(t *testing.T, text string, domain uint16, bus, slot, function byte) {
		specs, err := parsePCISpecs(text)
		if err != nil {
			return
		}
		address := [4]uint64{uint64(domain), uint64(bus), uint64(slot & 31), uint64(function & 7)}
		fits := func(s pciSpec) bool { return s.matches(address) }
		found := slices.ContainsFunc(specs, fits)
		for _, spec := range specs {
			if !fits(spec) {
				continue
			}
			again, err := parsePCISpecs(spec.text)
			if err != nil || !slices.ContainsFunc(again, fits) {
				t.Errorf("%s fits %s, but not when read again: %v", spec.text, pciText(address), err)
			}
		}
		if found && len(specs) == 0 {
			t.Error("nothing fits")
		}
	})
}
