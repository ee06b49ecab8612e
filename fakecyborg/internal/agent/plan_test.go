package agent

import (
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// card is a device with one deployable of n units.
func card(n int, traits ...string) driver.Device {
	d := driver.Deployable{Name: "cn0_card", NumAccelerators: n, DriverName: "test", Class: "PGPU", Traits: traits}
	for i := range n {
		d.AttachHandles = append(d.AttachHandles, driver.AttachHandle{Type: driver.HandlePCI, Info: driver.Info{"function": string(rune('0' + i))}})
	}
	return driver.Device{
		Type: driver.TypeGPU, Vendor: "10de", ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: driver.Info{"bus": "3b"}},
		Deployables: []driver.Deployable{d},
	}
}

// storedCard is the stored state after a report of a card.
func storedCard(d driver.Device) storedDevice {
	spec := d.Deployables[0]
	deployable := storedDeployable{
		Deployable: store.Deployable{Name: spec.Name, DriverName: spec.DriverName, Total: spec.NumAccelerators},
		reported:   driver.Deployable{Name: spec.Name, NumAccelerators: spec.NumAccelerators, Class: spec.Class, Traits: spec.Traits},
	}
	for _, h := range spec.AttachHandles {
		deployable.handles = append(deployable.handles, store.Handle{Type: h.Type, Info: store.Info(h.Key())})
	}
	return storedDevice{Device: store.Device{}.Merge(d, "test"), key: d.ControlPath.Key(), deployables: []storedDeployable{deployable}}
}

func TestPlanOfAReport(t *testing.T) {
	t.Parallel()
	bound := storedCard(card(2))
	bound.deployables[0].handles[0].State = store.Held
	double := card(2) // such as a card of Xilinx, whose functions are one unit
	double.Deployables[0].NumAccelerators = 1
	both := storedCard(double)
	both.deployables[0].handles[0].State, both.deployables[0].handles[1].State = store.Held, store.Held
	model := card(2)
	model.Model = "new"
	other := card(2)
	other.Deployables[0].Name = "cn0_other"
	taken := card(2)
	taken.Deployables[0].AttachHandles[0].InUse = true
	full := card(1)
	full.Deployables[0].AttachHandles[0].InUse = true
	for name, tt := range map[string]struct {
		stored                                      []storedDevice
		found                                       []driver.Device
		failed                                      bool // the driver could not look
		vanished, changed, deployables, vanishedOne int
	}{
		"nothing":                       {},
		"new":                           {found: []driver.Device{card(2)}, changed: 1},
		"unchanged":                     {stored: []storedDevice{storedCard(card(2))}, found: []driver.Device{card(2)}},
		"vanished":                      {stored: []storedDevice{storedCard(card(2))}, vanished: 1},
		"driver failed":                 {stored: []storedDevice{storedCard(card(2))}, failed: true},
		"more units":                    {stored: []storedDevice{storedCard(card(2))}, found: []driver.Device{card(3)}, changed: 1, deployables: 1},
		"another trait":                 {stored: []storedDevice{storedCard(card(2))}, found: []driver.Device{card(2, "CUSTOM_A")}, changed: 1, deployables: 1},
		"in use, unchanged":             {stored: []storedDevice{bound}, found: []driver.Device{card(2)}},
		"both handles of a unit in use": {stored: []storedDevice{both}, found: []driver.Device{double}},
		"another model":                 {stored: []storedDevice{storedCard(card(2))}, found: []driver.Device{model}, changed: 1},
		"another deployable":            {stored: []storedDevice{storedCard(card(2))}, found: []driver.Device{other}, changed: 1, deployables: 1, vanishedOne: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := discovery{present: make(map[string]bool), failed: map[string]bool{"test": tt.failed}}
			for _, d := range tt.found {
				seen.devices = append(seen.devices, found{d, "test", d.ControlPath.Key()})
				seen.present[d.ControlPath.Key()] = true
			}
			d := planReport(layout.Rules{Layout: store.LayoutTree}, tt.stored, seen)
			deployables, vanished := 0, 0
			for _, change := range d.devices {
				deployables, vanished = deployables+len(change.deployables), vanished+len(change.vanished)
			}
			if len(d.vanished) != tt.vanished || len(d.devices) != tt.changed || deployables != tt.deployables || vanished != tt.vanishedOne {
				t.Errorf("%d devices vanished, %d changed with %d deployables, %d deployables vanished; want %+v", len(d.vanished), len(d.devices), deployables, vanished, tt)
			}
		})
	}
}

func TestHandlesOfOthersAreNotOffered(t *testing.T) {
	t.Parallel()
	two := card(2).Deployables
	two[0].AttachHandles[0].InUse = true
	for name, tt := range map[string]struct {
		foreign bool
		want    []int // handles of each deployable
	}{
		"ours":    {false, []int{2}},
		"others'": {true, []int{1}},
	} {
		var got []int
		for _, d := range withoutForeign(two, func(_ driver.Deployable, h driver.AttachHandle) bool { return h.InUse && tt.foreign }) {
			if got = append(got, len(d.AttachHandles)); d.NumAccelerators != len(d.AttachHandles) {
				t.Errorf("%s: %d accelerators", name, d.NumAccelerators)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v handles, want %v", name, got, tt.want)
		}
	}
	one := card(1).Deployables
	one[0].AttachHandles[0].InUse = true
	if got := withoutForeign(one, func(driver.Deployable, driver.AttachHandle) bool { return true }); len(got) > 0 {
		t.Errorf("got %v, want no deployable without handles", got)
	}
}

// TestWhatAGuestHidesIsKept has the traits of the region and functions of an FPGA, which the kernel does not show
// while a guest uses it.
func TestWhatAGuestHidesIsKept(t *testing.T) {
	t.Parallel()
	const (
		vendor, region  = "CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_REGION_INTEL_9926AB6D6C925A68AABCA7D84C545738"
		gzip, other     = "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B", "CUSTOM_FPGA_FUNCTION_ID_INTEL_C6AA954A9B914A37ABC11D9F0709DCC3"
		former, another = "CUSTOM_FORMER", "CUSTOM_ANOTHER"
		programmable    = driver.TraitProgrammable
	)
	for name, tt := range map[string]struct {
		inUse, hidden, fixed bool
		stored, found, want  []string
	}{
		"in a guest":                 {true, true, false, []string{vendor, gzip, region}, []string{vendor}, []string{vendor, gzip, region}},
		"one function is seen":       {true, true, false, []string{vendor, gzip, other}, []string{vendor, other}, []string{vendor, gzip, other}},
		"another function is seen":   {true, true, false, []string{vendor, gzip, region}, []string{vendor, other}, []string{vendor, gzip, region, other}},
		"a trait is configured":      {true, true, false, []string{vendor, former, gzip}, []string{vendor, another}, []string{vendor, former, gzip, another}},
		"it could be programmed":     {true, true, false, []string{vendor, gzip, programmable}, []string{vendor, programmable}, []string{vendor, gzip, programmable}},
		"it could not be programmed": {true, true, true, []string{vendor, gzip}, []string{vendor, programmable}, []string{vendor, gzip}},
		"all is seen":                {true, false, false, []string{vendor, gzip, region}, []string{vendor, region, other}, []string{vendor, region, other}},
		"the function has been lost": {true, false, false, []string{vendor, gzip, region}, []string{vendor, region}, []string{vendor, region}},
		"not in use":                 {false, true, false, []string{vendor, gzip, region}, []string{vendor}, []string{vendor}},
	} {
		d := storedCard(card(2, tt.stored...))
		if d.deployables[0].Preprogrammed = tt.fixed; tt.inUse {
			d.deployables[0].handles[1].State = store.Held
		}
		found := card(2, tt.found...)
		found.Deployables[0].Hidden = tt.hidden
		got := d.keepHidden(found).Deployables[0]
		if !slices.Equal(got.Traits, tt.want) || got.Preprogrammed() != tt.fixed {
			t.Errorf("%s: %v, pre-programmed %t, want %v", name, got.Traits, got.Preprogrammed(), tt.want)
		}
		if !slices.Equal(found.Deployables[0].Traits, tt.found) {
			t.Errorf("%s: what the driver reported was changed", name)
		}
	}
}

// A device keeps its own provider while a function of its only other region is still another device's.
func TestARegionThatWaitsForItsFunctionReshapesNothing(t *testing.T) {
	t.Parallel()
	rules := layout.Rules{Layout: store.LayoutNested}
	fpga := card(2)
	fpga.Type = driver.TypeFPGA
	first, second := fpga.Deployables[0], fpga.Deployables[0]
	first.AttachHandles, second.AttachHandles, second.Name = first.AttachHandles[:1], second.AttachHandles[1:], "cn0_second"
	fpga.Deployables = []driver.Deployable{first, second}
	stored := storedCard(fpga)
	stored.Nested = true
	change := deviceChange{found: found{fpga, "test", stored.key}, stored: &stored, nested: rules.Nests(fpga)}
	taken := functionsOf([]storedDevice{stored})
	taken.add(driver.ControlPath{Info: second.AttachHandles[0].Info}.Address(), location{place: place{"another", "card"}, kind: driver.HandlePCI, state: store.Held})
	if taken.restrict(rules, &change); len(change.found.Deployables) != 1 || change.reshaped() {
		t.Errorf("%d deployables can be added, reshaped: %t", len(change.found.Deployables), change.reshaped())
	}
}
