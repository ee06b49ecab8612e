package fakecyborg_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

// dividedCard is a card of two functions: as one deployable, as one for each of them, and as two devices.
func dividedCard() (whole, separate driver.Device, apart []driver.Device) {
	whole = gpu("3b", "FPGA", nil, "1", "2")
	whole.Type = driver.TypeFPGA
	separate = whole.Clone()
	separate.Deployables = nil
	for _, function := range []string{"1", "2"} {
		part := gpu("3b", "FPGA", nil, function)
		part.ControlPath.Info, part.Type = pciInfo("3b", function), driver.TypeFPGA
		part.Deployables[0].Name = "cn0_0000:3b:00." + function
		apart = append(apart, part)
		separate.Deployables = append(separate.Deployables, part.Clone().Deployables...)
	}
	return whole, separate, apart
}

// checkFunctions fails if two handles have the same function.
func (w *reportWorld) checkFunctions() {
	w.t.Helper()
	seen := make(map[string]bool)
	for _, h := range w.cyborg.AttachHandles() {
		if at := h.Info["bus"] + "." + h.Info["function"]; seen[at] {
			w.t.Errorf("function %s is in two handles", at)
		} else {
			seen[at] = true
		}
	}
}

// offers is the number of functions that are offered or in use in deployables of these names.
func (w *reportWorld) offers(names ...string) (n int) {
	for _, d := range w.cyborg.Deployables() {
		for _, h := range w.cyborg.AttachHandles() {
			if h.DeployableUUID == d.UUID && slices.Contains(names, d.Name) {
				n++
			}
		}
	}
	return n
}

// TestAFunctionIsInOneDeployable has a card that is divided otherwise while its deployables cannot be removed.
func TestAFunctionIsInOneDeployable(t *testing.T) {
	t.Parallel()
	whole, separate, apart := dividedCard()
	for name, tt := range map[string]struct{ before, after []driver.Device }{
		"separated":        {[]driver.Device{whole}, []driver.Device{separate}},
		"joined":           {[]driver.Device{separate}, []driver.Device{whole}},
		"of other devices": {[]driver.Device{whole}, apart},
		"of one device":    {apart, []driver.Device{whole}},
		"the same names":   {[]driver.Device{separate}, apart},
	} {
		for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeNested, fakecyborg.ModeFlat} {
			for step, hold := range map[string]func(*reportWorld, string){
				"claimed": func(w *reportWorld, provider string) {
					w.claim(instanceA, placementsim.Allocation{Provider: provider, Class: "FPGA", Used: 1})
				},
				"bound, and Placement fails": func(w *reportWorld, provider string) {
					settled(w.t, w.bindTo("FPGA", provider, instanceA))
					failed := false
					w.wire.hook = func(method, path string) int {
						if failed || method != http.MethodPut || !strings.Contains(path, "/inventories") {
							return 0
						}
						failed = true
						return 500
					}
				},
			} {
				t.Run(name+", "+string(mode)+", "+step, func(t *testing.T) {
					t.Parallel()
					w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode}, tt.before...)
					w.report()
					hold(w, w.cyborg.Deployables()[0].ProviderUUID)
					w.hardware.set(tt.after...)
					for range 3 {
						_ = w.cyborg.Report(t.Context())
						w.checkFunctions()
					}
					w.wire.hook = nil
					w.free(instanceA)
					_ = w.placement.Release(instanceA)
					w.report()
					w.checkFunctions()
					var names []string
					for _, d := range tt.after {
						for _, deployable := range d.Deployables {
							names = append(names, deployable.Name)
						}
					}
					if got := w.names(); len(got) != len(names) || w.offers(names...) != 2 || w.offered("FPGA") != 2 {
						t.Errorf("deployables %v, and Placement has %d, want %v", got, w.offered("FPGA"), names)
					}
				})
			}
		}
	}
}

// gatedCard is hardware whose programming a test lets end.
type gatedCard struct {
	*hardware
	entered, leave chan bool
}

func (c gatedCard) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	close(c.entered)
	<-c.leave
	return c.hardware.Program(ctx, path, deployable, image)
}

// TestAFunctionBeingProgrammedIsNotOfferedElsewhere has a card that is divided otherwise while an image is written to it,
// for the administrator or for the request that has one of its functions.
func TestAFunctionBeingProgrammedIsNotOfferedElsewhere(t *testing.T) {
	t.Parallel()
	_, separate, _ := dividedCard()
	for name, begin := range map[string]func(*world){
		"for the administrator": func(w *world) {
			_ = w.server.ProgramDeployable(w.t.Context(), w.server.Deployables()[0].UUID, imageOne)
		},
		"for a bind": func(w *world) { w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered, leave, ended := make(chan bool), make(chan bool), make(chan bool)
			card := gatedCard{newHardware("test", fpgaCard("FPGA")), entered, leave}
			w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t))
			w.profile("f", `[{"resources:FPGA":"1","accel:bitstream_id":"`+imageOne+`"}]`)
			go func() { begin(w); close(ended) }()
			<-entered
			card.set(separate)
			for range 2 {
				_ = w.server.ReportHost(t.Context(), "cn0")
				if got := w.server.AttachHandles(); len(got) != 2 || got[0].DeployableUUID != got[1].DeployableUUID {
					t.Errorf("handles %v, want the handles of the region", got)
				}
			}
			close(leave)
			<-ended
		})
	}
}

// TestARegionIsNotProgrammedBelowAFunctionThatVanished has a card that is divided differently
// while a guest has one of its functions, so it is unknown whether another region now contains
// the function.
func TestARegionIsNotProgrammedBelowAFunctionThatVanished(t *testing.T) {
	t.Parallel()
	_, separate, _ := dividedCard()
	for name, tt := range map[string]struct {
		before, after driver.Device
		free          string // the deployable of the other function
	}{
		"joined":    {separate, fpgaCard("FPGA"), "cn0_0000:3b:00.0"},
		"separated": {fpgaCard("FPGA"), separate, "cn0_0000:3b:00.2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				card := newHardware("test", tt.before)
				w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t))
				w.profile("plain", `[{"resources:FPGA":"1"}]`)
				w.profile("image", `[{"resources:FPGA":"1","accel:bitstream_id":"`+imageOne+`"}]`)
				bind := func(profile, instance, provider string) {
					w.patch(binding(instance, provider, w.arqs(profile)...))
					synctest.Wait()
				}
				bind("plain", instanceA, w.server.Deployables()[0].ProviderUUID)
				w.server.CheckBound(t, instanceA, 1)
				card.set(tt.after)
				for range 2 {
					if err := w.server.ReportHost(t.Context(), "cn0"); err == nil || strings.Count(err.Error(), " in use by ") != 1 {
						t.Errorf("report: %v, want the user named once", err)
					}
				}
				at := slices.IndexFunc(w.server.Deployables(), func(d fakecyborg.StoredDeployable) bool { return d.Name == tt.free })
				if at < 0 {
					t.Fatalf("deployables %v, want %s", w.server.Deployables(), tt.free)
				}
				region := w.server.Deployables()[at]
				bind("image", instanceB, region.ProviderUUID)
				if err := w.server.ProgramDeployable(t.Context(), region.UUID, imageOne); err == nil || len(card.images) > 0 {
					t.Errorf("programming: %v, written %q, want that the user is named", err, card.images)
				}
				for _, instance := range []string{instanceA, instanceB} {
					w.want(w.delete("/v2/accelerator_requests?instance="+instance), 204, "")
				}
				settled(t, w.server.ReportHost(t.Context(), "cn0"))
				bind("image", instanceB, region.ProviderUUID)
				w.server.CheckBound(t, instanceB, 1)
			})
		})
	}
}
