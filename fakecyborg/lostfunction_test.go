package fakecyborg_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
)

// TestAHostThatRestartsLosesWhatWasProgrammed has a region with two functions, one in use by a
// guest. After the restart the driver may report the same as before the programming, or fail to
// read it.
func TestAHostThatRestartsLosesWhatWasProgrammed(t *testing.T) {
	t.Parallel()
	const zero, one, uuid = "CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO", "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE", "CUSTOM_FPGA_FUNCTION_ID_TEST_D8424DC4A4A3C413F89E433683F9040B"
	bare := fpgaCard("FPGA")
	bare.Deployables[0].Traits = []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_REGION_TEST_AA_11"}
	for name, tt := range map[string]struct {
		first, written, after driver.Device // what the driver reports
		want                  []string
	}{
		"read before, hidden after":         {fpgaCard("FPGA"), fpgaCardWith(one), bare, nil},
		"read before, its first function":   {fpgaCard("FPGA"), fpgaCardWith(one), fpgaCard("FPGA"), []string{zero}},
		"never read, none":                  {bare, bare, bare, nil},
		"not read yet, its first function":  {fpgaCard("FPGA"), fpgaCard("FPGA"), fpgaCard("FPGA"), []string{zero}},
		"read before, kept by the card":     {bare, fpgaCardWith(one), fpgaCardWith(one), []string{one}},
		"changed by others, hidden after":   {fpgaCard("FPGA"), fpgaCardWith(uuid), bare, nil},
		"changed by others, first function": {fpgaCard("FPGA"), fpgaCardWith(uuid), fpgaCard("FPGA"), []string{zero}},
	} {
		for _, how := range []string{"stopped", "rebooted"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					faults := fault.NewSet()
					card := newHardware("test", tt.first)
					w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t), fakecyborg.WithFaults(faults))
					w.profile("f", `[{"resources:FPGA":"1","accel:function_id":"one"}]`)
					w.profile("u", `[{"resources:FPGA":"1","accel:function_id":"`+functionUUID+`"}]`)
					w.want(w.bindF(instanceA, "f"), 202, "")
					user := w.server.ARQs()[0].UUID
					card.set(tt.written)
					_ = w.server.Report(t.Context())
					if how == "stopped" {
						settled(t, w.server.StopAgent("cn0"))
					} else {
						settled(t, faults.Set(fault.Rule{Operation: fault.AgentReport, Action: fault.Reboot, Delay: time.Minute, Times: 1}))
						if err := w.server.Report(t.Context()); err == nil {
							t.Error("the report of a host that reboots succeeded")
						}
					}
					w.server.CheckBitstream(t, fpgaProvider(), "") // while the host is down
					card.set(tt.after)
					if how == "stopped" {
						settled(t, w.server.StartAgent(t.Context(), "cn0"))
					} else {
						elapse(time.Hour)
					}
					_ = w.server.Report(t.Context())
					if got := w.functions(); !slices.Equal(got, tt.want) {
						t.Errorf("functions after the restart: %v, want %v", got, tt.want)
					}
					kept := len(tt.want) == 1 && tt.want[0] == one
					for profile, there := range map[string]bool{"f": kept, "u": false} {
						r := w.bindF(instanceB, profile)
						if there {
							w.want(r, 202, "")
						} else {
							w.want(r, 409, "deployable cn0_0000:3b:00.0 is in use by ARQ "+user+" and cannot be programmed")
						}
						w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
					}
					w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
					w.want(w.bindF(instanceB, "f"), 202, "")
					w.server.CheckBound(t, instanceB, 1)
					if got, want := len(card.images), either(kept, 2, 1); got != want {
						t.Errorf("%d images written, want %d", got, want)
					}
				})
			})
		}
	}
}

// TestUpstreamKeepsTheBitstreamOfARegion: neither a restart of the host nor a report of another function changes it.
func TestUpstreamKeepsTheBitstreamOfARegion(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world, *hardware){
		"restart": func(w *world, _ *hardware) {
			settled(t, w.server.StopAgent("cn0"))
			settled(t, w.server.StartAgent(w.t.Context(), "cn0"))
		},
		"another function": func(w *world, card *hardware) {
			for _, function := range []string{"ONE", "OTHER"} {
				card.set(fpgaCardWith("CUSTOM_FPGA_FUNCTION_ID_TEST_" + function))
				settled(t, w.server.Report(w.t.Context()))
			}
		},
	} {
		for _, quirks := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, `"accel:function_id":"one"`)
				w.want(w.bindF(instanceA, "f"), 202, "")
				lose(w, card)
				if got := w.server.Deployables()[0].BitstreamID; got != either(quirks, "", imageOne) {
					t.Errorf("%s, quirks %t: bitstream %q", name, quirks, got)
				}
			})
		}
	}
}

// TestASilentAgentLosesNoFunction: a silent agent does not change the hardware.
func TestASilentAgentLosesNoFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet()
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:function_id":"one"`, fakecyborg.WithFaults(faults))
		w.want(w.bindF(instanceA, "f"), 202, "")
		settled(t, faults.Set(fault.Rule{Operation: fault.AgentReport, Action: fault.Drop, Delay: time.Minute, Times: 1}))
		if err := w.server.Report(t.Context()); err == nil {
			t.Error("the report of a silent agent succeeded")
		}
		elapse(time.Hour)
		w.want(w.bindF(instanceB, "f"), 202, "")
		w.server.CheckBound(t, instanceB, 1)
		if len(card.images) != 1 {
			t.Errorf("%d images written, want 1", len(card.images))
		}
	})
}

// TestACardThatIsMissingFromOneReportKeepsItsFunction: what is stored of a card that is not reported is not what its driver has read.
func TestACardThatIsMissingFromOneReportKeepsItsFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:function_id":"one"`)
		w.want(w.bindF(instanceA, "f"), 202, "")
		for _, found := range [][]driver.Device{{fpgaCard("FPGA")}, nil, {fpgaCard("FPGA")}, {fpgaCard("FPGA")}} {
			card.set(found...)
			_ = w.server.Report(t.Context())
			if got := w.functions(); !slices.Equal(got, []string{"CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"}) {
				t.Errorf("functions after %d cards were found: %v", len(found), got)
			}
		}
		w.want(w.bindF(instanceB, "f"), 202, "")
		w.server.CheckBound(t, instanceB, 1)
		if len(card.images) != 1 {
			t.Errorf("%d images written, want 1", len(card.images))
		}
	})
}

// TestAFunctionThatMayBeLostIsNotOffered: a request that only asks for its trait is refused while the host is down.
func TestAFunctionThatMayBeLostIsNotOffered(t *testing.T) {
	t.Parallel()
	w, _ := fpgaWorld(t, fakecyborg.Config{}, `"trait:CUSTOM_FPGA_FUNCTION_ID_TEST_ONE":"required"`)
	w.want(w.programAPI(imageOne, ""), 200, "")
	settled(t, w.server.StopAgent("cn0"))
	w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 409,
		"deployable cn0_0000:3b:00.0 has no known function: programming it failed, or its host has restarted since")
}

// TestAProgrammingThatARestartOvertakesFails has a host restart after the image was written and before that is known.
func TestAProgrammingThatARestartOvertakesFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet()
		w, _ := fpgaWorld(t, fakecyborg.Config{}, `"trait:CUSTOM_FPGA_FUNCTION_ID_TEST_ONE":"required"`, fakecyborg.WithFaults(faults))
		settled(t, faults.Set(fault.Rule{Operation: fault.DeployableWrite, Action: fault.Delay, Delay: 10 * time.Minute, When: fault.After, Times: 1}))
		go func() {
			time.Sleep(time.Minute)
			if err := w.server.StopAgent("cn0"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			if err := w.server.StartAgent(t.Context(), "cn0"); err != nil {
				t.Error(err)
			}
		}()
		w.want(w.programAPI(imageOne, ""), 500, "")
		if d := w.server.Deployables()[0]; d.BitstreamID != "" {
			t.Errorf("bitstream_id %s", d.BitstreamID)
		}
		if got := w.functions(); slices.Contains(got, "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE") {
			t.Errorf("functions %v", got)
		}
		if r := w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)); r.status != 409 {
			t.Errorf("a bind by the function: %d %s", r.status, r.fault())
		}
	})
}

// TestALostTraitIsNotOffered has a device whose traits change before a request is bound that was scheduled by them. A trait that
// no driver reported may be one that others put on its provider.
func TestALostTraitIsNotOffered(t *testing.T) {
	t.Parallel()
	const kept, old, anew, foreign = "CUSTOM_KEPT", "CUSTOM_OLD", "CUSTOM_NEW", "CUSTOM_FOREIGN"
	const one, two = "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE", "CUSTOM_FPGA_FUNCTION_ID_TEST_TWO"
	const function = "deployable cn0_0000:3b:00.0 has been programmed with another function"
	const lost, unwanted = "deployable cn0_0000:3b:00.0 no longer has trait CUSTOM_OLD", "deployable cn0_0000:3b:00.0 has trait CUSTOM_NEW, which is forbidden"
	before, after := []string{driver.TraitOwnerCyborg, kept, old, one}, []string{kept, anew, two}
	for name, tt := range map[string]struct {
		trait, value string
		back         bool // the device is again as it was
		wait         time.Duration
		quirks       bool
		want         string
	}{
		"lost":             {trait: old, value: "required", want: lost},
		"lost and back":    {trait: old, value: "required", back: true},
		"lost long ago":    {trait: old, value: "required", wait: time.Hour},
		"upstream":         {trait: old, value: "required", quirks: true},
		"function":         {trait: one, value: "required", want: function},
		"upstream's":       {trait: one, value: "required", quirks: true},
		"kept":             {trait: kept, value: "required"},
		"added by others":  {trait: foreign, value: "required"},
		"new":              {trait: anew, value: "forbidden", want: unwanted},
		"new and gone":     {trait: anew, value: "forbidden", back: true},
		"lost and avoided": {trait: old, value: "forbidden"},
		"the owner":        {trait: driver.TraitOwnerCyborg, value: "required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				card := newHardware("test", gpu("3b", "PGPU", before, "0"))
				w := newWorld(t, fakecyborg.Config{UpstreamQuirks: tt.quirks}, []driver.Driver{card})
				w.profile("p", `[{"resources:PGPU":"1","trait:`+tt.trait+`":"`+tt.value+`"}]`)
				card.set(gpu("3b", "PGPU", after, "0"))
				settled(t, w.server.Report(t.Context()))
				if tt.back {
					card.set(gpu("3b", "PGPU", before, "0"))
					settled(t, w.server.Report(t.Context()))
				}
				time.Sleep(tt.wait)
				r := w.patch(binding(instanceA, driver.ProviderUUID("cn0_0000:3b:00.0"), w.arqs("p")...))
				if tt.want == "" {
					w.want(r, 202, "")
				} else {
					w.want(r, 409, tt.want)
				}
			})
		})
	}
}

// TestAFunctionReportedAfterAFailedProgrammingIsIgnored has an image written in part between a restart of the host and its
// first report, which shows what the driver has always shown.
func TestAFunctionReportedAfterAFailedProgrammingIsIgnored(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet()
	w, _ := fpgaWorld(t, fakecyborg.Config{}, `"trait:CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO":"required"`, fakecyborg.WithFaults(faults))
	w.want(w.programAPI(imageOne, ""), 200, "")
	settled(t, w.server.StopAgent("cn0"))
	settled(t, faults.Set(
		fault.Rule{Operation: fault.AgentReport, Action: fault.Status, Times: 1},
		fault.Rule{Operation: fault.DeployableWrite, Action: fault.Status, When: fault.After, Times: 1},
	))
	if err := w.server.StartAgent(t.Context(), "cn0"); err == nil {
		t.Error("the first report succeeded")
	}
	if r := w.programAPI(imageOne, ""); r.status < 400 {
		t.Errorf("the programming succeeded: %d", r.status)
	}
	shown := func(when string) {
		t.Helper()
		settled(t, w.server.Report(t.Context()))
		w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 409,
			"deployable cn0_0000:3b:00.0 has no known function: programming it failed, or its host has restarted since")
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		if got := w.functions(); len(got) > 0 {
			t.Errorf("functions after %s: %v", when, got)
		}
	}
	shown("the first report")
	shown("the second")
	w.want(w.programAPI(imageOne, ""), 200, "")
	settled(t, w.server.Report(t.Context()))
	if got := w.functions(); !slices.Equal(got, []string{"CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"}) {
		t.Errorf("functions after an image was written: %v", got)
	}
}

// refusing is a Placement that refuses changes while it is down.
type refusing struct {
	http.Handler
	down atomic.Bool
}

// ServeHTTP implements http.Handler.
func (r *refusing) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.down.Load() && req.Method == http.MethodPut {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.Handler.ServeHTTP(w, req)
}

// TestATraitOnlyInPlacementIsNotOffered has Placement refuse the report that removes a trait.
func TestATraitOnlyInPlacementIsNotOffered(t *testing.T) {
	t.Parallel()
	const function = "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"
	for name, tt := range map[string]struct {
		trait, want string
		lose        func(*world, *hardware) error
	}{
		"a function of before a restart": {function, "deployable cn0_0000:3b:00.0 has no known function: programming it failed, or its host has restarted since",
			func(w *world, _ *hardware) error {
				settled(w.t, w.server.StopAgent("cn0"))
				return w.server.StartAgent(t.Context(), "cn0")
			}},
		"one that is not reported": {"CUSTOM_FPGA_INTEL", "deployable cn0_0000:3b:00.0 no longer has trait CUSTOM_FPGA_INTEL",
			func(w *world, card *hardware) error {
				without := fpgaCard("FPGA")
				without.Deployables[0].Traits = without.Deployables[0].Traits[1:]
				card.set(without)
				return w.server.Report(t.Context())
			}},
	} {
		simulated := newPlacement(t)
		placement := &refusing{Handler: simulated}
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"trait:`+tt.trait+`":"required"`, withPlacement(placement))
		w.want(w.programAPI(imageOne, ""), 200, "")
		placement.down.Store(true)
		if err := tt.lose(w, card); err == nil {
			t.Errorf("%s: the report succeeded", name)
		}
		w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 409, tt.want)
		placement.down.Store(false)
		settled(t, w.server.Report(t.Context()))
		if has, err := simulated.ResourceProvider(fpgaProvider()); err != nil || slices.Contains(has.Traits, tt.trait) {
			t.Errorf("%s: Placement is back, and has %v, error %v", name, has.Traits, err)
		}
	}
}

// TestABindUsesTheCurrentFunctionOfARegion has a region programmed after an instance was scheduled by what it had before.
func TestABindUsesTheCurrentFunctionOfARegion(t *testing.T) {
	t.Parallel()
	const one = "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"
	const other = "deployable cn0_0000:3b:00.0 has been programmed with another function"
	for name, tt := range map[string]struct{ image, value, want string }{
		"another image":                      {imageTwo, "required", other},
		"an image without a function":        {imagePlain, "required", other},
		"the function":                       {imageOne, "required", ""},
		"a function that is forbidden":       {imageOne, "forbidden", "deployable cn0_0000:3b:00.0 has trait " + one + ", which is forbidden"},
		"another than the forbidden":         {imageTwo, "forbidden", ""},
		"none in place of a forbidden one's": {imagePlain, "forbidden", ""},
	} {
		w, _ := fpgaWorld(t, fakecyborg.Config{}, `"trait:`+one+`":"`+tt.value+`"`)
		w.want(w.programAPI(imageOne, ""), 200, "")
		w.want(w.programAPI(tt.image, ""), 200, "")
		r := w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...))
		if got := r.fault(); got != tt.want {
			t.Errorf("%s: got %d %q, want %q", name, r.status, got, tt.want)
		}
	}
}

// TestABindThatARestartOvertakesFails has a region lose the function that was the reason to write no image.
func TestABindThatARestartOvertakesFails(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]string{
		`"accel:function_id":"one"`:                           "deployable cn0_0000:3b:00.0 was reset while ARQ ",
		`"trait:CUSTOM_FPGA_FUNCTION_ID_TEST_ONE":"required"`: "deployable cn0_0000:3b:00.0 has been programmed with another function",
	} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := fpgaWorld(t, fakecyborg.Config{BindDelay: time.Minute}, group)
			w.want(w.programAPI(imageOne, ""), 200, "")
			w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 202, "")
			settled(t, w.server.StopAgent("cn0"))
			settled(t, w.server.StartAgent(t.Context(), "cn0"))
			elapse(2 * time.Minute)
			if got := w.server.ARQs()[0]; got.State != fakecyborg.StateBindFailed || !strings.HasPrefix(got.Failure, want) {
				t.Errorf("%s: %s, %q, want %q", group, got.State, got.Failure, want)
			}
			w.server.CheckHandlesInUse(t, fpgaProvider(), 0)
		})
	}
}

// TestARemovedFunctionIsNotOffered has the function that a driver reported replaced and then hidden, or its host down.
func TestARemovedFunctionIsNotOffered(t *testing.T) {
	t.Parallel()
	const zero = "CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO"
	w, card := fpgaWorld(t, fakecyborg.Config{}, `"trait:`+zero+`":"required"`)
	bind := func() reply {
		_ = w.delete("/v2/accelerator_requests?instance=" + instanceA)
		return w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...))
	}
	settled(t, w.server.StopAgent("cn0"))
	w.want(bind(), 409, "deployable cn0_0000:3b:00.0 has no known function: programming it failed, or its host has restarted since")
	settled(t, w.server.StartAgent(t.Context(), "cn0"))
	w.want(bind(), 202, "")
	w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
	w.want(w.programAPI(imageOne, ""), 200, "")
	bare := fpgaCard("FPGA")
	bare.Deployables[0].Traits = slices.DeleteFunc(bare.Deployables[0].Traits, driver.IsFunctionTrait)
	card.set(bare)
	settled(t, w.server.Report(t.Context()))
	w.want(bind(), 409, "deployable cn0_0000:3b:00.0 no longer has trait "+zero)
}
