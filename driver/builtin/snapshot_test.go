package builtin_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
)

// The drivers here read a tree and keep nothing: all that they have is what they were
// made with. Whoever adds a field decides here whether it is state, which makes the
// driver a driver.Snapshotter, or says where else it comes from.
func TestNoDriverHereRemembersAnything(t *testing.T) {
	t.Parallel()
	const given = "configuration"
	fields := map[string]map[string]string{
		"fake.Driver":       {"host": given},
		"nvidia.Driver":     {"PCIDriver": given, "MdevParents": given, "VGPUFunctions": given, "config": given, "types": given, "vgpus": given},
		"mdev.Driver":       {"TreeReader": given, "MdevParents": given, "config": given, "types": given, "parents": given},
		"driver.PCIDriver":  {"TreeReader": given + ", of a description that is copied for each discovery", "claims": given},
		"driver.TreeReader": {"name": given, "tree": given, "discover": "a method of the driver"},
		"fpga.Intel":        {"base": given},
		"fpga.Xilinx":       {"base": given},
		"fpga.Inspur":       {"base": given},
		"fpga.base":         {"TreeReader": given, "driverName": given, "settings": given},
		"fpga.settings":     {"Config": given, "products": given, "devices": given, "functionality": given},
	}
	seen := make(map[string]bool)
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		known, listed := fields[of.String()]
		seen[of.String()] = true
		if !listed || of.NumField() != len(known) {
			t.Errorf("%s has %d fields, and %d are listed", of, of.NumField(), len(known))
		}
		for i := range of.NumField() {
			field := of.Field(i)
			if known[field.Name] == "" {
				t.Errorf("%s.%s: is it state?", of, field.Name)
			}
			if slices.Contains([]string{"TreeReader", "PCIDriver", "base", "settings"}, field.Name) {
				look(field.Type)
			}
		}
	}
	for _, d := range load(t, allOn(), generate(t, everything())) {
		if _, ok := d.(driver.Snapshotter); ok {
			t.Errorf("%s is a Snapshotter: it is not for this list", d.Name())
		}
		look(reflect.TypeOf(d))
	}
	if len(seen) != len(fields) {
		t.Errorf("%d types were seen, and %d are listed", len(seen), len(fields))
	}
}

// Drivers made anew for a tree that has loaded a dump find what the old ones find, regardless of
// earlier calls.
func TestDriversMadeAnewFindTheSameInALoadedTree(t *testing.T) {
	t.Parallel()
	tree := generate(t, everything())
	drivers := load(t, allOn(), tree)
	driver.DiscoverAll(t.Context(), drivers)
	m := driver.Mdev{UUID: "6f9619ff-8b86-4011-b42d-00c04fc964ff", Parent: "0000:11:00.0", Type: "nvidia-222"}
	for _, d := range drivers {
		if maker, ok := d.(driver.MdevDriver); ok && d.Name() == "nvidia" {
			if err := maker.CreateMdev(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tree.Program("0000:12:00.0", 0, afuB); err != nil {
		t.Fatal(err)
	}
	data, err := tree.Dump()
	if err != nil {
		t.Fatal(err)
	}
	again := generate(t, everything())
	if err := driver.Load(again, data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]driver.Mdev{m}, again.Mdevs()); diff != "" {
		t.Errorf("mdevs (-want +got):\n%s", diff)
	}
	want := driver.DiscoverAll(t.Context(), drivers)
	got := driver.DiscoverAll(t.Context(), load(t, allOn(), again))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-kept +anew):\n%s", diff)
	}
}
