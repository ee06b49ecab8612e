package sysfs

import (
	"reflect"
	"testing"
)

// Whoever adds a field to the state decides here whether it is in the dump, and in the
// random writes that are compared after one.
func TestEveryFieldOfTheStateIsDumpedOrDerived(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of     any
		fields map[string]string
	}{
		{Memory{}, map[string]string{"mu": "a lock", "described": "configuration", "changed": "dumped"}},
		{blueprint{}, map[string]string{"Description": "configuration", "mu": "a lock", "generated": "derived from the description"}},
		{hardware{}, map[string]string{
			"root":      "derived from all others; what SetFile, SetLink, Remove and Deny did is not kept",
			"functions": "the described ones, and the virtual ones, which are dumped", "mdevs": "dumped", "reserved": "derived from the description",
			"lastGroup": "derived from the description", "parents": "derived from functions and the description",
			"fpgas": "derived from the description", "ports": "derived from the description", "lastFPGA": "derived from the description",
			"numbers": "derived from the description", "viewed": "derived", "view": "derived from the description",
		}},
		{function{}, map[string]string{
			"address": "the description's", "dir": "the description's", "id": "the description's", "kernel": "the description's", "numa": "the description's",
			"group": "derived from the description", "types": "the description's", "mixed": "the description's", "dev": "derived from the description", "dfl": "the description's",
			"vfGroup": "derived from the description", "vfDev": "derived from the description", "vfs": "the description's", "enabledAtStart": "the description's", "virtual": "dumped", "fpga": "the description's", "loaded": "dumped",
			"makesVGPU": "the description's", "vgpu": "dumped", "held": "dumped",
		}},
		{node{}, map[string]string{
			"children": "derived", "target": "derived", "data": "derived", "hidden": "derived, but for Deny", "write": "derived", "refusal": "derived",
		}},
		{DirTree{}, map[string]string{"tree": "the files or the overlay", "files": "configuration", "overlay": "dumped", "udev": "configuration"}},
		{overlay{}, map[string]string{"base": "configuration", "mu": "a lock", "made": "dumped", "removed": "dumped", "vgpus": "dumped", "log": "dumped"}},
	} {
		of := reflect.TypeOf(tt.of)
		for i := range of.NumField() {
			if tt.fields[of.Field(i).Name] == "" {
				t.Errorf("%s.%s: is it dumped?", of, of.Field(i).Name)
			}
		}
		if of.NumField() != len(tt.fields) {
			t.Errorf("%s has %d fields, and %d are listed", of, of.NumField(), len(tt.fields))
		}
	}
}
