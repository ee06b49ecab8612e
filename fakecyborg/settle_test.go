package fakecyborg_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/testrun"
	"github.com/gocyborg/gocyborg/placementsim"
)

// mdevCard is a card of n mediated devices of a type.
func mdevCard(bus, mdevType string, n int, traits ...string) driver.Device {
	d := gpu(bus, "VGPU", traits)
	p := &d.Deployables[0]
	p.NumAccelerators, p.AttachHandles = n, nil
	for i := range n {
		info := pciInfo(bus, "0")
		info["asked_type"], info["vgpu_mark"] = mdevType, fmt.Sprintf("%s_%d", mdevType, i)
		p.AttachHandles = append(p.AttachHandles, driver.AttachHandle{Type: driver.HandleMDEV, Info: info})
	}
	return d
}

// boardOf is a nested card with regions of these functions, which share memory.
func boardOf(mib int, functions ...string) driver.Device {
	var traits [][]string
	for i, function := range functions {
		traits = append(traits, []string{"CUSTOM_FPGA_INTEL", fmt.Sprintf("CUSTOM_FPGA_REGION_INTEL_%d", i), "CUSTOM_FPGA_FUNCTION_INTEL_" + function})
	}
	d := cardOf(traits...)
	d.Resources = map[string]int{"CUSTOM_ACCELERATOR_MEMORY_DDR": mib}
	return d
}

// upheaval is something that changes Placement, and what the hardware is afterwards.
type upheaval struct {
	mode   fakecyborg.PlacementMode
	before []driver.Device
	bound  string // the class of a request that is bound during the change
	do     func(*reportWorld) error
	after  []driver.Device
}

// reports makes hardware change, and reports it.
func reports(devices ...driver.Device) func(*reportWorld) error {
	return func(w *reportWorld) error {
		w.hardware.set(devices...)
		return w.cyborg.Report(w.t.Context())
	}
}

// setsStatus sets the status of the first device, after those before.
func setsStatus(statuses ...string) func(*reportWorld) error {
	return func(w *reportWorld) (err error) {
		for _, status := range statuses {
			err = errors.Join(err, w.cyborg.SetDeviceStatus(w.t.Context(), w.cyborg.Devices()[0].UUID, status))
		}
		return err
	}
}

// programs writes images to the first deployable.
func programs(images ...string) func(*reportWorld) error {
	return func(w *reportWorld) (err error) {
		for _, image := range images {
			err = errors.Join(err, w.cyborg.ProgramDeployable(w.t.Context(), w.cyborg.Deployables()[0].UUID, image))
		}
		return err
	}
}

func upheavals() map[string]upheaval {
	small, large := mdevCard("af", "nvidia-222", 2, "CUSTOM_A"), mdevCard("af", "nvidia-223", 4, "CUSTOM_B")
	here, there := gpu("3b", "PGPU", []string{flatTrait}, "0"), gpu("5e", "CUSTOM_GPU", []string{flatTrait}, "0")
	board, other := boardOf(1024, "AA", "BB"), boardOf(2048, "CC", "AA")
	bare := boardOf(1024, "AA", "BB")
	bare.Resources = nil
	whole, noFPGA := cardOf([]string{"CUSTOM_A"}), cardOf([]string{"CUSTOM_A"})
	noFPGA.Type = driver.TypeGPU
	family := cardOf([]string{"CUSTOM_FPGA_XILINX", "CUSTOM_FPGA_REGION_INTEL_0"}, []string{"CUSTOM_FPGA_XILINX", "CUSTOM_FPGA_REGION_INTEL_1"})
	list := func(devices ...driver.Device) []driver.Device { return devices }
	disable, enable := fakecyborg.StatusMaintaining, fakecyborg.StatusEnabled
	return map[string]upheaval{
		"a card is added":                      {do: reports(small), after: list(small)},
		"a card is added and vanishes":         {do: reports(small)},
		"a card vanishes":                      {before: list(small), do: reports()},
		"a card vanishes and returns":          {before: list(small), do: reports(), after: list(small)},
		"a card in use vanishes":               {before: list(large), bound: "VGPU", do: reports()},
		"a card in use vanishes and returns":   {before: list(large), bound: "VGPU", do: reports(), after: list(large)},
		"another type":                         {before: list(small), do: reports(large), after: list(large)},
		"another type for a while":             {before: list(small), do: reports(large), after: list(small)},
		"another class for a while":            {before: list(here), do: reports(gpu("3b", "CUSTOM_GPU", []string{"CUSTOM_B"}, "0")), after: list(here)},
		"disable":                              {before: list(small), do: setsStatus(disable), after: list(small)},
		"enable":                               {before: list(small), do: setsStatus(disable, enable), after: list(small)},
		"disable, and another type":            {before: list(small), do: setsStatus(disable), after: list(large)},
		"program":                              {before: list(fpgaCard("FPGA")), do: programs(imageOne), after: list(fpgaCard("FPGA"))},
		"program twice":                        {before: list(fpgaCard("FPGA")), do: programs(imageOne, imageUUID), after: list(fpgaCard("FPGA"))},
		"flat: cards are added":                {mode: fakecyborg.ModeFlat, do: reports(here, there), after: list(here, there)},
		"flat: a card vanishes":                {mode: fakecyborg.ModeFlat, before: list(here), do: reports()},
		"flat: a card vanishes and returns":    {mode: fakecyborg.ModeFlat, before: list(here), do: reports(), after: list(here)},
		"flat: one of two vanishes for a time": {mode: fakecyborg.ModeFlat, before: list(here, there), do: reports(here), after: list(here, there)},
		"flat: disable":                        {mode: fakecyborg.ModeFlat, before: list(here), do: setsStatus(disable), after: list(here)},
		"flat: enable":                         {mode: fakecyborg.ModeFlat, before: list(here), do: setsStatus(disable, enable), after: list(here)},
		"nested: a board is added":             {mode: fakecyborg.ModeNested, do: reports(board), after: list(board)},
		"nested: a board vanishes":             {mode: fakecyborg.ModeNested, before: list(board), do: reports()},
		"nested: a board returns":              {mode: fakecyborg.ModeNested, before: list(board), do: reports(), after: list(board)},
		"nested: other functions":              {mode: fakecyborg.ModeNested, before: list(board), do: reports(other), after: list(board)},
		"nested: another family":               {mode: fakecyborg.ModeNested, before: list(board), do: reports(family), after: list(board)},
		"nested: one region only":              {mode: fakecyborg.ModeNested, before: list(board), do: reports(boardOf(1024, "AA")), after: list(board)},
		"nested: more memory":                  {mode: fakecyborg.ModeNested, before: list(board), do: reports(boardOf(2048, "AA", "BB")), after: list(boardOf(2048, "AA", "BB"))},
		"nested: less memory":                  {mode: fakecyborg.ModeNested, before: list(board), do: reports(boardOf(512, "AA", "BB")), after: list(boardOf(512, "AA", "BB"))},
		"nested: no memory":                    {mode: fakecyborg.ModeNested, before: list(board), do: reports(bare), after: list(bare)},
		"nested: memory at last":               {mode: fakecyborg.ModeNested, before: list(bare), do: reports(board), after: list(board)},
		"nested: one region, more memory":      {mode: fakecyborg.ModeNested, before: list(board), do: reports(boardOf(2048, "AA")), after: list(boardOf(2048, "AA"))},
		"nested: another type of device":       {mode: fakecyborg.ModeNested, before: list(whole), do: reports(noFPGA), after: list(noFPGA)},
		"nested: disable":                      {mode: fakecyborg.ModeNested, before: list(board), do: setsStatus(disable), after: list(board)},
		"nested: enable":                       {mode: fakecyborg.ModeNested, before: list(board), do: setsStatus(disable, enable), after: list(board)},
	}
}

// interruption is what becomes of one request to Placement.
type interruption string

const (
	refused interruption = "refused"
	outage  interruption = "refused, and all that follow"
	lost    interruption = "the answer is lost"
	unsure  interruption = "done, and answered 500"
	silence interruption = "the answer is lost, and all that follow are refused"
	crash   interruption = "the process ends before its answer"
)

// TestAReportSettlesWhatFailed interrupts each change at each of its requests to Placement. Once
// Placement answers again, two reports bring it to the state that a new Cyborg writes to an empty
// Placement, with nothing extra or missing. In a sample each request is interrupted in one of the
// ways.
func TestAReportSettlesWhatFailed(t *testing.T) {
	t.Parallel()
	for name, u := range upheavals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ways := []interruption{refused, outage, lost, unsure, silence, crash}
			for k, how := range ways {
				first, step := 1, 1
				if !testrun.Whole {
					first, step = 1+k, len(ways)
				}
				for n, more := first, true; more; n += step {
					reached := false
					more = t.Run(fmt.Sprintf("%s %d", how, n), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { reached = u.interrupt(t, how, n) })
					}) && reached
				}
			}
		})
	}
}

// interrupt interrupts the nth request, and reports whether there is one.
func (u upheaval) interrupt(t *testing.T, how interruption, n int) bool {
	cfg := fakecyborg.Config{PlacementMode: u.mode}
	w := newReportWorldOn(t, newReportWorldOf(t, cfg, u.before...), cfg, withImages(t))
	w.report()
	if u.bound != "" {
		w.bind(u.bound, "af")
	}
	calls := 0
	var state []byte
	w.wire.hook = func(string, string) int {
		calls++
		fails := calls == n && (how == refused || how == outage) || calls > n && (how == outage || how == silence || how == crash)
		return either(fails, 0, http.StatusServiceUnavailable)
	}
	w.wire.after = func(string, string) error {
		switch {
		case calls == n && how == crash:
			state = dumped(t, w.cyborg)
		case calls == n && (how == lost || how == silence):
			return errors.New("the answer is lost")
		case calls == n && how == unsure:
			return answered(http.StatusInternalServerError)
		}
		return nil
	}
	_ = u.do(w)
	if calls < n {
		return false
	}
	w.wire.hook, w.wire.after = nil, nil
	if how == crash {
		w = newReportWorldOn(t, w, cfg, withImages(t))
		loaded(t, w.cyborg, state)
		w.cyborg.Resume()
		synctest.Wait()
	}
	w.settles(cfg, u.after)
	return true
}

// settles checks that two reports make Placement what the hardware, the status of the devices and the functions of the regions
// are now.
func (w *reportWorld) settles(cfg fakecyborg.Config, devices []driver.Device) {
	w.t.Helper()
	w.hardware.set(devices...)
	_ = w.cyborg.Report(w.t.Context())
	w.free(instanceA)
	if err := w.cyborg.Report(w.t.Context()); err != nil {
		w.t.Errorf("the second report: %v", err)
	}
	status := make(map[string]string)
	for _, d := range w.cyborg.Devices() {
		status[d.ControlPath.Key()] = d.Status
	}
	fresh := newReportWorldOf(w.t, cfg, devices...)
	fresh.report()
	for _, d := range fresh.cyborg.Devices() {
		if err := fresh.cyborg.SetDeviceStatus(w.t.Context(), d.UUID, status[d.ControlPath.Key()]); err != nil {
			w.t.Error(err)
		}
	}
	if diff := cmp.Diff(fresh.shown(), w.shown(), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("Placement (-fresh +got):\n%s%s", diff, w.cyborg.Tree())
	}
	for _, d := range w.cyborg.Deployables() {
		p, err := w.placement.ResourceProvider(d.ProviderUUID)
		if err != nil {
			w.t.Error(err)
		}
		if diff := cmp.Diff(functionsOf(d.Traits()), functionsOf(p.Traits)); diff != "" {
			w.t.Errorf("functions of %s in Placement (-stored +got):\n%s", d.Name, diff)
		}
	}
	if n := w.unsettled(); n > 0 {
		w.t.Errorf("%d providers are pending", n)
	}
}

// shown are inventories and traits by path, without functions, which may have been programmed.
func (w *reportWorld) shown() map[string]placementsim.ResourceProvider {
	all := make(map[string]placementsim.ResourceProvider)
	for path, p := range w.tree() {
		traits := slices.DeleteFunc(slices.Clone(p.Traits), driver.IsFunctionTrait)
		slices.Sort(traits)
		all[path] = placementsim.ResourceProvider{Name: p.Name, Inventories: p.Inventories, Traits: traits}
	}
	return all
}

func functionsOf(traits []string) string {
	list := slices.DeleteFunc(slices.Clone(traits), func(trait string) bool { return !driver.IsFunctionTrait(trait) })
	slices.Sort(list)
	return strings.Join(list, " ")
}

// unsettled counts the providers whose contents in Placement may differ.
func (w *reportWorld) unsettled() int {
	return strings.Count(string(dumped(w.t, w.cyborg)), `"pending":{`)
}

// TestReportsSettleAnySequence has changes follow each other while a part of the requests to Placement fails, and processes end
// between them.
func TestReportsSettleAnySequence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			mode := rapid.SampledFrom([]fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeNested, fakecyborg.ModeFlat}).Draw(rt, "mode")
			cfg := fakecyborg.Config{PlacementMode: mode}
			w := newReportWorldOn(t, newReportWorldOf(t, cfg), cfg, withImages(t))
			for _, class := range []string{"VGPU", "PGPU", "FPGA"} {
				if _, err := w.cyborg.CreateDeviceProfile(class, []map[string]string{{"resources:" + class: "1"}}); err != nil {
					rt.Fatal(err)
				}
			}
			random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
			percent := rapid.SampledFrom([]int{0, 10, 30}).Draw(rt, "percent")
			fails := func() bool { return random.IntN(100) < percent }
			interrupt := func() {
				w.wire.hook = func(string, string) int { return either(fails(), 0, http.StatusServiceUnavailable) }
				w.wire.after = func(string, string) error { return either[error](fails(), nil, errors.New("the answer is lost")) }
			}
			interrupt()
			devices := drawDevices(rt, mode)
			rt.Repeat(map[string]func(*rapid.T){
				"hardware": func(rt *rapid.T) { devices = drawDevices(rt, mode); w.hardware.set(devices...) },
				"report":   func(*rapid.T) { _ = w.cyborg.Report(t.Context()) },
				"status": func(rt *rapid.T) {
					if all := w.cyborg.Devices(); len(all) > 0 {
						status := rapid.SampledFrom([]string{fakecyborg.StatusEnabled, fakecyborg.StatusMaintaining}).Draw(rt, "status")
						_ = w.cyborg.SetDeviceStatus(t.Context(), rapid.SampledFrom(all).Draw(rt, "device").UUID, status)
					}
				},
				"program": func(rt *rapid.T) {
					for _, d := range w.cyborg.Deployables() {
						if image := rapid.SampledFrom([]string{imageOne, imageUUID, imageBad, unknownID}).Draw(rt, "image"); d.ResourceClass() == "FPGA" {
							_ = w.cyborg.ProgramDeployable(t.Context(), d.UUID, image)
						}
					}
				},
				"bind": func(rt *rapid.T) {
					if all := w.cyborg.Deployables(); len(all) > 0 {
						d := rapid.SampledFrom(all).Draw(rt, "deployable")
						if arqs, err := w.cyborg.CreateARQs(d.ResourceClass(), "p"); err == nil {
							_ = w.cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: d.ProviderUUID, Instance: instanceA})
						}
					}
				},
				"free": func(*rapid.T) { w.free(instanceA) },
				"restart": func(*rapid.T) {
					state := dumped(t, w.cyborg)
					w = newReportWorldOn(t, w, cfg, withImages(t))
					loaded(t, w.cyborg, state)
					interrupt()
					w.cyborg.Resume()
					synctest.Wait()
				},
			})
			w.wire.hook, w.wire.after = nil, nil
			w.settles(cfg, devices)
			if t.Failed() {
				rt.FailNow()
			}
		})
	})
}

// drawDevices draws what a host has. On a flat host all have the same traits.
func drawDevices(rt *rapid.T, mode fakecyborg.PlacementMode) (list []driver.Device) {
	trait := func(name string) string { return either(mode == fakecyborg.ModeFlat, name, flatTrait) }
	first := []driver.Device{
		mdevCard("af", "nvidia-222", 2, trait("CUSTOM_A")), mdevCard("af", "nvidia-222", 4, trait("CUSTOM_A")), mdevCard("af", "nvidia-223", 1, trait("CUSTOM_B")),
		gpu("af", "PGPU", []string{trait("CUSTOM_A")}, "0"),
	}
	second := []driver.Device{gpu("3b", "PGPU", []string{trait("CUSTOM_A")}, "0", "1"), gpu("3b", "PGPU", []string{trait("CUSTOM_B")}, "1")}
	switch mode {
	case fakecyborg.ModeTree:
		second = append(second, fpgaCard("FPGA"), fpgaCardWith("CUSTOM_FPGA_FUNCTION_ID_TEST_SEVEN"))
	case fakecyborg.ModeNested:
		second = append(second, boardOf(1024, "AA"), boardOf(1024, "AA", "BB"), boardOf(2048, "BB", "AA"))
	}
	for _, choice := range [][]driver.Device{first, second} {
		if rapid.IntRange(0, 3).Draw(rt, "present") > 0 {
			list = append(list, rapid.SampledFrom(choice).Draw(rt, "device"))
		}
	}
	return list
}

// TestEnablingFreesWhatAnEarlierCyborgReserved: a Cyborg that has lost its state keeps the
// reservation of a disabled device until the device is enabled.
func TestEnablingFreesWhatAnEarlierCyborgReserved(t *testing.T) {
	t.Parallel()
	for mode, device := range map[fakecyborg.PlacementMode]driver.Device{
		fakecyborg.ModeTree: mdevCard("af", "nvidia-222", 2), fakecyborg.ModeNested: boardOf(1024, "AA", "BB"),
	} {
		cfg := fakecyborg.Config{PlacementMode: mode}
		w := newReportWorldOf(t, cfg, device)
		w.report()
		before := w.shown()
		settled(t, setsStatus(fakecyborg.StatusMaintaining)(w))
		disabled := w.shown()
		w = newReportWorldOn(t, w, cfg)
		w.report()
		if diff := cmp.Diff(disabled, w.shown()); diff != "" {
			t.Errorf("%s: after a report (-disabled +got):\n%s", mode, diff)
		}
		settled(t, setsStatus(fakecyborg.StatusEnabled)(w))
		if diff := cmp.Diff(before, w.shown()); diff != "" {
			t.Errorf("%s: after enabling (-before +got):\n%s", mode, diff)
		}
	}
}
