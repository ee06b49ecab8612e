package fakecyborg_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/sim"
)

// The images of the tests. One is the only one that has the function "one";
// two have the function "two".
const (
	imageOne     = "cccccccc-0000-4000-8000-000000000001"
	imageBad     = "cccccccc-0000-4000-8000-000000000002"
	imageTwo     = "cccccccc-0000-4000-8000-000000000003"
	imageUUID    = "cccccccc-0000-4000-8000-000000000004" // its function has a UUID
	imageRegion  = "cccccccc-0000-4000-8000-000000000005" // for another type of region
	imageOdd     = "cccccccc-0000-4000-8000-000000000006" // its function can be no trait
	imagePlain   = "cccccccc-0000-4000-8000-000000000007" // names no function
	imageGuest   = "cccccccc-0000-4000-8000-000000000008" // of a guest
	functionUUID = "d8424dc4-a4a3-c413-f89e-433683f9040b"
)

// images is a Glance with them.
func images(t *testing.T) *glance.Server {
	t.Helper()
	s := glance.New(glance.Config{})
	for _, i := range []glance.Image{
		{ID: imageOne, Data: []byte("bits"), Properties: map[string]string{
			"accel:function_id": "one", "accel:function_name": "gzip", "accel:bitstream_name": "gzip-v1", "accel:region_id": "aa-11",
		}},
		{ID: imageBad, Data: []byte("bad bits"), Properties: map[string]string{"accel:function_id": "bad"}},
		{ID: imageTwo, Data: []byte("two"), Properties: map[string]string{"accel:function_id": "two", "accel:bitstream_name": "twice"}},
		{Data: []byte("two"), Properties: map[string]string{"accel:function_id": "two", "accel:bitstream_name": "twice"}},
		{ID: imageUUID, Data: []byte("uuid"), Properties: map[string]string{"accel:function_id": functionUUID}},
		{ID: imageRegion, Data: []byte("region"), Properties: map[string]string{"accel:region_id": "bb-22"}},
		{ID: imageOdd, Data: []byte("odd"), Properties: map[string]string{"accel:function_id": "ü"}},
		{ID: imagePlain, Data: []byte("plain")},
		{Data: []byte("both"), Properties: map[string]string{"accel:function_id": "both"}},
		{Data: []byte("disk"), DiskFormat: "qcow2", Properties: map[string]string{"accel:function_id": "both"}},
		{Data: []byte("sdk"), DiskFormat: "qcow2", Properties: map[string]string{"accel:function_name": "sdk"}}, // the default of openstacksdk
	} {
		_, err := s.AddImage(i)
		settled(t, err)
	}
	return s
}

// addGuestImages adds the image of a guest, in a format that a bitstream may have, and others in those of virtual disks.
func addGuestImages(t *testing.T, s *glance.Server, property, value string) {
	t.Helper()
	for _, format := range []string{"raw", "qcow2", "iso"} {
		image := glance.Image{Data: []byte("disk"), DiskFormat: format, Properties: map[string]string{"accel:" + property: value}}
		if format == "raw" {
			image.ID = imageGuest
		}
		_, err := s.AddImage(image)
		settled(t, err)
	}
}

func withImages(t *testing.T) fakecyborg.Option { return withGlance(images(t)) }

func withGlance(h http.Handler) fakecyborg.Option {
	return fakecyborg.WithGlance(sim.Endpoint{URL: "http://glance.invalid/v2", Client: inProcess(h), Token: adminToken})
}

// fpgaCard is a card with one region of two handles, of region type aa-11 and with
// function 0.
func fpgaCard(class string) driver.Device {
	d := gpu("3b", class, []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO", "CUSTOM_FPGA_REGION_TEST_AA_11"}, "1", "2")
	d.Type, d.Vendor, d.Model = driver.TypeFPGA, "0x8086", "an FPGA"
	return d
}

// fpgaWorld is a world with such a card, and a profile "f" that wants what accel
// says.
func fpgaWorld(t *testing.T, cfg fakecyborg.Config, accel string, opts ...fakecyborg.Option) (*world, *hardware) {
	t.Helper()
	card := newHardware("test", fpgaCard("FPGA"))
	w := newWorld(t, cfg, []driver.Driver{card}, append([]fakecyborg.Option{withImages(t)}, opts...)...)
	w.profile("f", `[{"resources:FPGA":"1",`+accel+`}]`)
	return w, card
}

func fpgaProvider() string { return driver.ProviderUUID("cn0_0000:3b:00.0") }

// bindF binds the requests of a profile to the region of the card and waits.
func (w *world) bindF(instance, profile string) reply {
	w.t.Helper()
	r := w.patch(binding(instance, fpgaProvider(), w.arqs(profile)...))
	synctest.Wait()
	return r
}

// programAPI programs the world's one deployable.
func (w *world) programAPI(image, token string) reply {
	w.t.Helper()
	body := fmt.Sprintf(`[{"path":"/program","op":"replace","value":[{"image_uuid":%q}]}]`, image)
	return w.send(sent{method: "PATCH", path: "/v2/deployables/" + w.server.Deployables()[0].UUID + "/program", body: body, token: token})
}

// functions are the function traits of the world's one deployable.
func (w *world) functions() []string {
	return slices.DeleteFunc(w.server.Deployables()[0].Traits(), func(trait string) bool {
		return !driver.IsFunctionTrait(trait)
	})
}

func testBitstreamIsProgrammedOnce(t *testing.T, quirks bool) {
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, `"accel:bitstream_id":"`+imageOne+`"`)
		w.want(w.bindF(instanceA, "f"), 202, "")
		w.want(w.bindF(instanceB, "f"), 202, "")
		w.server.CheckBound(t, instanceA, 1)
		w.server.CheckBound(t, instanceB, 1)
		if got := w.server.Deployables()[0].BitstreamID; got != imageOne || len(card.images) != 1 || string(card.images[0]) != "bits" {
			t.Errorf("bitstream %s, images written %q", got, card.images)
		}
		if got := w.functions(); !slices.Equal(got, []string{"CUSTOM_FPGA_FUNCTION_ID_TEST_" + either(quirks, "ONE", "ZERO")}) {
			t.Errorf("functions %v", got)
		}
		w.checkPosts(2)
	})
}

func testFunctionByImage(t *testing.T, quirks bool) {
	for accel, want := range map[string]string{
		`"accel:function_id":"one"`:                  "completed",
		`"accel:function_id":"none"`:                 "failed",
		`"accel:function_id":"two"`:                  "failed", // which of them?
		`"accel:function_id":"bad"`:                  "failed",
		`"accel:bitstream_id":"` + unknownID + `"`:   "failed",
		`"accel:bitstream_id":"` + imageBad + `"`:    "failed",
		`"accel:bitstream_id":"../../v2/metadefs/x"`: "failed",
	} {
		t.Run(accel, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, accel)
				w.want(w.bindF(instanceA, "f"), 202, "")
				state, used := fakecyborg.StateBindFailed, 0
				if want == "completed" {
					state, used = fakecyborg.StateBound, 1
				}
				checkStates(t, w, state)
				if got := w.nova.sent(); len(got) != 1 || got[0][0].Status != want {
					t.Errorf("events %v, want %s", got, want)
				}
				if w.used() != used || len(card.images) != used {
					t.Errorf("%d handles, %d images; want %d", w.used(), len(card.images), used)
				}
			})
		})
	}
}

func testBitstreamAndFunction(t *testing.T, quirks bool) {
	w, _ := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, `"accel:function_id":"one","accel:bitstream_id":"`+imageOne+`"`)
	w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 400,
		"In device profile {0}, only one among bitstream_id and function_id must be set, but both are set")
	checkStates(t, w, "BindFailed")
	if w.used() != 0 || len(w.nova.sent()) != 0 {
		t.Errorf("%d handles, events %v", w.used(), w.nova.sent())
	}
}

func testProgramADeployable(t *testing.T, quirks bool) {
	w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, `"accel:bitstream_id":"`+imageOne+`"`)
	path := "/v2/deployables/" + w.server.Deployables()[0].UUID
	op := func(image string) string {
		return fmt.Sprintf(`[{"path":"/program","op":"replace","value":[{"image_uuid":%q}]}]`, image)
	}
	for _, tt := range []struct {
		path, body string
		status     int
		fault      string
	}{
		{path, op(imageOne), 200, ""},
		{path, op(imageBad), 500, ""},
		{path, op(unknownID), either(quirks, 404, 500), ""},
		{path, op("x"), 400, "Expected a uuid but received x."},
		{"/v2/deployables/xx", op(imageOne), 400, ""},
		{"/v2/deployables/" + unknownID, op(imageOne), 404, "Deployable not found with uuid=" + unknownID},
		{path, `[{"path":"/name","op":"replace","value":[]}]`, 400, "'/name' is an internal attribute and can not be updated"},
		{path, `[{"path":"/program","op":"add"}]`, 400, "'add' and 'replace' operations need a value"},
		{path, `[{"path":"/program","op":"test","value":1}]`, 400, ""},
		{path, `[{"path":"program","op":"add","value":1}]`, 400, `Invalid input for field/attribute path. Value: 'program'. Value should match the pattern ^(/[\w-]+)+$`},
		{path, `{}`, 400, "Invalid input for field/attribute program_info. Value: '{}'. Value not a valid list: {}"},
		{path, `[]`, either(quirks, 400, 500), "list index out of range"},
		{path, `[{"path":"/program","op":"remove"}]`, either(quirks, 400, 500), ""},
	} {
		w.want(w.send(sent{method: "PATCH", path: tt.path + "/program", body: tt.body}), tt.status, tt.fault)
	}
	// Upstream remembers nothing, and here the bad image may have spoiled the good one.
	if got := w.server.Deployables()[0].BitstreamID; len(card.images) != 1 || string(card.images[0]) != "bits" || got != "" {
		t.Errorf("images written: %q, bitstream %q, want none", card.images, got)
	}
	w.want(w.send(sent{method: "PATCH", path: path, body: op(imageOne)}), 405, "")
}

func TestNamesAreResolvedThroughGlance(t *testing.T) {
	t.Parallel()
	digits := strings.ReplaceAll(functionUUID, "-", "")
	for _, tt := range []struct {
		accel  string
		class  string
		state  fakecyborg.State
		image  string // written, or named in the failure
		quirks bool
	}{
		{`"accel:function_name":"gzip"`, "FPGA", fakecyborg.StateBound, "bits", false},
		{`"accel:bitstream_name":"gzip-v1"`, "FPGA", fakecyborg.StateBound, "bits", false},
		{`"accel:bitstream_name":"gzip-v1"`, "CUSTOM_ACCELERATOR_FPGA", fakecyborg.StateBound, "bits", false},
		{`"accel:function_id":"one"`, "CUSTOM_ACCELERATOR_FPGA", fakecyborg.StateBound, "bits", false},
		{`"accel:function_name":"sdk"`, "FPGA", fakecyborg.StateBound, "sdk", false},
		{`"accel:function_name":"nothing"`, "FPGA", fakecyborg.StateBindFailed, "function_name nothing: no image has it, want exactly one", false},
		{`"accel:bitstream_name":"twice"`, "FPGA", fakecyborg.StateBindFailed, imageTwo, false},
		{`"accel:bitstream_id":"` + imageRegion + `"`, "FPGA", fakecyborg.StateBindFailed, "image " + imageRegion + " is for regions of type bb-22, deployable cn0_0000:3b:00.0 is not one", false},
		{`"accel:bitstream_id":"` + imageOdd + `"`, "FPGA", fakecyborg.StateBindFailed, "image " + imageOdd + `: accel:function_id "ü"`, false},
		{`"accel:function_id":"` + digits + `"`, "FPGA", fakecyborg.StateBound, "uuid", false},
		{`"accel:function_id":"` + digits + `"`, "FPGA", fakecyborg.StateBindFailed, "function_id " + digits + ": no image has it, want exactly one", true},
		{`"accel:function_id":"both"`, "FPGA", fakecyborg.StateBound, "both", false},
		{`"accel:function_id":"both"`, "FPGA", fakecyborg.StateBindFailed, "function_id both: 2 images have it, want exactly one", true},
	} {
		t.Run(fmt.Sprintf("%s %s, quirks %t", tt.class, tt.accel, tt.quirks), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				card := newHardware("test", fpgaCard(tt.class))
				w := newWorld(t, fakecyborg.Config{UpstreamQuirks: tt.quirks}, []driver.Driver{card}, withImages(t))
				w.profile("f", `[{"resources:`+tt.class+`":"1",`+tt.accel+`}]`)
				w.want(w.bindF(instanceA, "f"), 202, "")
				checkStates(t, w, tt.state)
				got := string(slices.Concat(card.images...))
				if failure := w.server.ARQs()[0].Failure; tt.state == fakecyborg.StateBindFailed {
					if got != "" || !strings.Contains(failure, tt.image) {
						t.Errorf("written %q, failure %q, want %q in it", got, failure, tt.image)
					}
				} else if got != tt.image || failure != "" {
					t.Errorf("written %q, failure %q; want %q", got, failure, tt.image)
				}
			})
		})
	}
}

func TestUpstreamReadsNeitherNamesNorTheOtherClass(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		class, group string
		arqs         int
	}{
		{"FPGA", `{"resources:FPGA":"1","accel:function_name":"nothing"}`, 1},
		{"CUSTOM_ACCELERATOR_FPGA", `{"resources:CUSTOM_ACCELERATOR_FPGA":"1","accel:bitstream_id":"` + imageOne + `"}`, 1},
		{"FPGA", `{"resources:CUSTOM_ACCELERATOR_MEMORY_DDR4":"1","resources:FPGA":"1","accel:bitstream_id":"` + imageOne + `"}`, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			card := newHardware("test", fpgaCard(tt.class))
			w := newWorld(t, fakecyborg.Config{UpstreamQuirks: true}, []driver.Driver{card}, withImages(t))
			w.profile("f", "["+tt.group+"]")
			w.want(w.bindF(instanceA, "f"), 202, "")
			w.server.CheckBound(t, instanceA, tt.arqs)
			if len(card.images) != 0 {
				t.Errorf("%s: written: %q", tt.group, card.images)
			}
		})
	}
}

func TestMoreThanOneSelectorIsRefused(t *testing.T) {
	t.Parallel()
	for accel, named := range map[string]string{
		`"accel:function_name":"gzip","accel:bitstream_name":"gzip-v1"`:                                              "bitstream_name and function_name",
		`"accel:function_name":"gzip","accel:function_id":"one"`:                                                     "function_id and function_name",
		`"accel:bitstream_name":"x","accel:bitstream_id":"` + imageOne + `","accel:function_id":"one","accel:y":"z"`: "bitstream_id and function_id and bitstream_name",
	} {
		w, _ := fpgaWorld(t, fakecyborg.Config{}, accel)
		w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 400,
			"In device profile f, only one among bitstream_id, function_id, bitstream_name and function_name must be set, but "+named+" are set")
		checkStates(t, w, "BindFailed")
	}
}

func TestFunctionThatIsThereIsNotProgrammedAgain(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		for _, accel := range []string{`"accel:function_id":"one"`, `"accel:function_name":"gzip"`, `"accel:bitstream_name":"gzip-v1"`} {
			if quirks && accel != `"accel:function_id":"one"` {
				continue // names mean nothing to upstream
			}
			synctest.Test(t, func(t *testing.T) {
				w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, accel)
				w.want(w.bindF(instanceA, "f"), 202, "")
				w.want(w.bindF(instanceB, "f"), 202, "")
				w.server.CheckBound(t, instanceB, 1)
				if got, want := len(card.images), either(quirks, 1, 2); got != want {
					t.Errorf("quirks %t, %s: %d images written, want %d", quirks, accel, got, want)
				}
			})
		}
	}
}

// After a failed programming every request has its image written again.
func TestTheContentIsUnknownAfterAFailedProgramming(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		for _, accel := range []string{`"accel:function_id":"one"`, `"accel:bitstream_id":"` + imageOne + `"`, `"accel:function_id":"zero"`} {
			if quirks && accel != `"accel:bitstream_id":"`+imageOne+`"` {
				continue // upstream writes functions every time
			}
			synctest.Test(t, func(t *testing.T) {
				faults := fault.NewSet()
				w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, accel, fakecyborg.WithFaults(faults))
				w.profile("g", `[{"resources:FPGA":"1","accel:bitstream_id":"`+imageTwo+`"}]`)
				zero := strings.Contains(accel, "zero") // is there from the start, and no image has it
				if !zero {
					w.want(w.bindF(instanceA, "f"), 202, "")
					w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceA}), 204, "")
				}
				settled(t, faults.Set(fault.Rule{Operation: fault.DeployableWrite, Action: fault.Status, When: fault.After}))
				w.want(w.bindF(instanceB, "g"), 202, "")
				w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceB}), 204, "")
				if got, want := w.server.Deployables()[0].BitstreamID, either(quirks, "", imageOne); got != want {
					t.Errorf("quirks %t, %s: bitstream after a failed writing: got %q, want %q", quirks, accel, got, want)
				}
				before := len(card.images)
				w.want(w.bindF(instanceA, "f"), 202, "")
				switch {
				case zero:
					if state := w.server.ARQs()[0].State; state != fakecyborg.StateBindFailed {
						t.Errorf("bound to a function that cannot be written again: %s", state)
					}
				case (len(card.images) > before) == quirks:
					t.Errorf("quirks %t, %s: %d images written for the next bind", quirks, accel, len(card.images)-before)
				default:
					w.server.CheckBound(t, instanceA, 1)
				}
			})
		}
	}
}

func TestDriversFunctionIsNotProgrammedAgain(t *testing.T) {
	t.Parallel()
	w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:function_id":"zero"`)
	w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 202, "")
	w.server.CheckBound(t, instanceA, 1) // at once: nothing had to be written, and Glance not to be asked
	if len(card.images) != 0 {
		t.Errorf("written: %q", card.images)
	}
}

func TestXilinxRequestsShareTheirProgramming(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"trait:CUSTOM_FPGA_XILINX":"required","accel:bitstream_id":"`+imageOne+`"`)
		w.want(w.bindF(instanceA, "f"), 202, "")
		w.server.CheckBound(t, instanceA, 2)
		if len(card.images) != 1 {
			t.Errorf("%d images written, want 1", len(card.images))
		}
	})
}

// TestFunctionTraitsFollowTheProgramming compares the store, Placement, and
// what the next report makes of both.
func TestFunctionTraitsFollowTheProgramming(t *testing.T) {
	t.Parallel()
	placement, card := newPlacement(t), newHardware("test", fpgaCard("FPGA"))
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t), withPlacement(placement))
	check := func(when string, want ...string) {
		t.Helper()
		p, err := placement.ResourceProvider(fpgaProvider())
		settled(t, err)
		there := slices.DeleteFunc(slices.Clone(p.Traits), func(trait string) bool { return !strings.HasPrefix(trait, "CUSTOM_FPGA_FUNCTION_") })
		if have := w.functions(); !slices.Equal(have, want) {
			t.Errorf("%s: the deployable has %v, want %v", when, have, want)
		}
		if !slices.Equal(there, want) {
			t.Errorf("%s: Placement has %v, want %v", when, there, want)
		}
		if !slices.Contains(p.Traits, "CUSTOM_FPGA_INTEL") {
			t.Errorf("%s: other traits went: %v", when, p.Traits)
		}
	}
	report := func() {
		t.Helper()
		settled(t, w.server.Report(t.Context()))
	}
	check("at first", "CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO")
	w.want(w.programAPI(imageUUID, ""), 200, "")
	const uuid = "CUSTOM_FPGA_FUNCTION_ID_TEST_D8424DC4A4A3C413F89E433683F9040B"
	check("programmed", uuid)
	report() // the driver still reports the old function
	check("after a report", uuid)
	w.want(w.programAPI(imageOne, ""), 200, "")
	check("programmed again", "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE")
	w.want(w.programAPI(imagePlain, ""), 200, "")
	check("programmed with an unknown function")
	report()
	check("after another report")
	w.want(w.programAPI(imageOne, ""), 200, "")
	report()
	check("and again", "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE")
	w.want(w.programAPI(unknownID, ""), 404, "")
	check("after an image that is not there", "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE")
	card.refuses = true
	w.want(w.programAPI(imageUUID, ""), 500, "")
	card.refuses = false
	check("after a refusal of the driver", "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE")
	w.want(w.programAPI(imageBad, ""), 500, "")
	check("after a writing that failed")
	report()
	check("and reported")
	w.profile("one", `[{"resources:FPGA":"1","trait:CUSTOM_FPGA_FUNCTION_ID_TEST_ONE":"required"}]`)
	w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("one")...)), 409, "deployable cn0_0000:3b:00.0 has no known function: programming it failed, or its host has restarted since")
	card.set(fpgaCardWith("CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"))
	report()
	check("a driver that reads the card reports it", "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE")
	late := w.arqs("one")
	card.set(fpgaCardWith(uuid))
	w.want(w.programAPI(imageUUID, ""), 200, "")
	w.want(w.patch(binding(instanceB, fpgaProvider(), late...)), 409, "deployable cn0_0000:3b:00.0 has been programmed with another function")
	card.set(fpgaCardWith("CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"))
	w.want(w.programAPI(imageOne, ""), 200, "")
	const next = "dddddddd-0000-4000-8000-000000000003"
	w.want(w.patch(binding(next, fpgaProvider(), w.arqs("one")...)), 202, "")
	w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + next}), 204, "")
	card.set(fpgaCard("FPGA"))
	report()
	w.want(w.programAPI(imageOne, ""), 200, "")
	check("once it is written", "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE")
	card.set(fpgaCardWith("CUSTOM_FPGA_FUNCTION_ID_TEST_SEVEN"))
	report() // a driver that reads the card overrules what was written
	check("the driver looked", "CUSTOM_FPGA_FUNCTION_ID_TEST_SEVEN")
	bitstream := func(when, want string) {
		t.Helper()
		if got := w.server.Deployables()[0].BitstreamID; got != want {
			t.Errorf("%s: bitstream %q, want %q", when, got, want)
		}
	}
	bitstream("the driver looked", "")
	tell := func(trait string) {
		card.set(fpgaCardWith(trait))
		report()
	}
	w.want(w.programAPI(imageUUID, ""), 200, "")
	tell(uuid)
	check("the driver sees it", uuid)
	bitstream("the driver sees it", imageUUID)
	card.set(withTraits(fpgaCardWith(uuid), "CUSTOM_FPGA_FUNCTION_ID_TEST_SIX")) // which the image has, too
	report()
	check("the driver sees two", uuid, "CUSTOM_FPGA_FUNCTION_ID_TEST_SIX")
	bitstream("the driver sees two", imageUUID)
	tell("CUSTOM_FPGA_FUNCTION_ID_TEST_SEVEN") // the card started again with its first function
	check("the card started again", "CUSTOM_FPGA_FUNCTION_ID_TEST_SEVEN")
	bitstream("the card started again", "")
	w.want(w.programAPI(imagePlain, ""), 200, "")
	tell("CUSTOM_FPGA_FUNCTION_ID_TEST_EIGHT") // which the image did not name
	bitstream("the driver knows better than the image", imagePlain)
	tell("CUSTOM_FPGA_FUNCTION_ID_TEST_SEVEN")
	bitstream("the card started again", "")
}

// readCard is a card whose driver reads the functions from it: those after any programming.
type readCard struct {
	*hardware
	functions []string
}

func (c readCard) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	err := c.hardware.Program(ctx, path, deployable, image)
	if err == nil {
		c.set(withTraits(fpgaCardWith(c.functions[0]), c.functions[1:]...))
	}
	return err
}

// TestTheFunctionIsInPlacementWhenTheBindEnds without a report, however the bitstream was
// selected. The image names the function, or else the driver that reads the card.
func TestTheFunctionIsInPlacementWhenTheBindEnds(t *testing.T) {
	t.Parallel()
	const one, uuid, six = testFunction + "ONE", testFunction + "D8424DC4A4A3C413F89E433683F9040B", testFunction + "SIX"
	for _, tt := range []struct {
		accel string
		shows []string // by a driver that reads the card
		want  []string
		fails string
	}{
		{`"accel:bitstream_id":"` + imageOne + `"`, nil, []string{one}, ""},
		{`"accel:bitstream_name":"gzip-v1"`, nil, []string{one}, ""},
		{`"accel:function_id":"one"`, nil, []string{one}, ""},
		{`"accel:function_name":"gzip"`, nil, []string{one}, ""},
		{`"accel:bitstream_id":"` + imagePlain + `"`, nil, nil, ""}, // nothing says it
		{`"accel:bitstream_id":"` + imagePlain + `"`, []string{six}, []string{six}, ""},
		{`"accel:bitstream_name":"nameless"`, []string{six}, []string{six}, ""},
		{`"accel:function_name":"nameless"`, []string{six, one}, []string{six, one}, ""},
		{`"accel:function_id":"one"`, []string{six, one}, []string{six, one}, ""},
		{`"accel:function_id":"` + functionUUID + `"`, []string{"CUSTOM_FPGA_ACME_FUNCTION_D8424DC4_A4A3_C413_F89E_433683F9040B"},
			[]string{"CUSTOM_FPGA_ACME_FUNCTION_D8424DC4_A4A3_C413_F89E_433683F9040B"}, ""}, // the driver's name of the vendor
		{`"accel:function_id":"one"`, []string{six}, nil, `accel:function_id of the image is "one", and the region shows ` + six},
		{`"accel:bitstream_id":"` + imageUUID + `"`, []string{one}, nil, `accel:function_id of the image is "` + functionUUID + `", and the region shows ` + one},
	} {
		synctest.Test(t, func(t *testing.T) {
			placement, bitstreams := newPlacement(t), images(t)
			_, err := bitstreams.AddImage(glance.Image{Data: []byte("bits"), Properties: map[string]string{
				"accel:function_name": "nameless", "accel:bitstream_name": "nameless",
			}})
			settled(t, err)
			var card driver.Driver = newHardware("test", fpgaCard("FPGA"))
			if tt.shows != nil {
				card = readCard{newHardware("test", fpgaCard("FPGA")), tt.shows}
			}
			w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withGlance(bitstreams), withPlacement(placement))
			w.profile("f", `[{"resources:FPGA":"1",`+tt.accel+`}]`)
			w.want(w.bindF(instanceA, "f"), 202, "")
			a := w.server.ARQs()[0]
			if want := either(tt.fails != "", fakecyborg.StateBound, fakecyborg.StateBindFailed); a.State != want || !strings.Contains(a.Failure, tt.fails) {
				t.Errorf("%s, the driver shows %v: %s %q, want %q", tt.accel, tt.shows, a.State, a.Failure, tt.fails)
			}
			for _, when := range []string{"bound", "reported"} {
				p, err := placement.ResourceProvider(fpgaProvider())
				settled(t, err)
				inPlacement := slices.DeleteFunc(p.Traits, func(trait string) bool { return !driver.IsFunctionTrait(trait) })
				slices.Sort(inPlacement)
				want := slices.Sorted(slices.Values(tt.want))
				if when == "reported" && tt.fails != "" {
					want = tt.shows // the driver knows it
				}
				if diff := cmp.Diff(want, inPlacement, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, the driver shows %v, %s: traits in Placement (-want +got):\n%s", tt.accel, tt.shows, when, diff)
				}
				if diff := cmp.Diff(inPlacement, slices.Sorted(slices.Values(w.functions())), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, %s: of the deployable (-Placement +Cyborg):\n%s", tt.accel, when, diff)
				}
				settled(t, w.server.Report(t.Context()))
			}
		})
	}
}

// TestACardThatLosesItsFunctionBeforeAReport has the kernel hide the function while a guest has the card: no report shows what was
// written before the card starts again with its first function.
func TestACardThatLosesItsFunctionBeforeAReport(t *testing.T) {
	t.Parallel()
	card := readCard{newHardware("test", fpgaCard("FPGA")), []string{"CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"}}
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t))
	w.want(w.programAPI(imageOne, ""), 200, "")
	if diff := cmp.Diff([]string{"CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"}, w.functions()); diff != "" {
		t.Errorf("programmed (-want +got):\n%s", diff)
	}
	card.set(fpgaCard("FPGA"))
	settled(t, w.server.Report(t.Context()))
	if diff := cmp.Diff([]string{"CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO"}, w.functions()); diff != "" {
		t.Errorf("after it started again (-want +got):\n%s", diff)
	}
	w.server.CheckBitstream(t, fpgaProvider(), "") // after it started again
}

func fpgaCardWith(trait string) driver.Device {
	d := fpgaCard("FPGA")
	d.Deployables[0].Traits[1] = trait
	return d
}

func withTraits(d driver.Device, more ...string) driver.Device {
	d.Deployables[0].Traits = append(d.Deployables[0].Traits, more...)
	return d
}

// TestUpstreamFailsForItsTraitName: the hyphen of a UUID becomes "_-", which
// Placement refuses; the request stays BindStarted and no event is sent.
func TestUpstreamFailsForItsTraitName(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, `"accel:function_id":"`+functionUUID+`"`, withPlacement(newPlacement(t)))
			w.want(w.bindF(instanceA, "f"), 202, "")
			checkStates(t, w, either(quirks, fakecyborg.StateBound, fakecyborg.StateBindStarted))
			w.checkPosts(either(quirks, 1, 0))
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "") // no state without a way out
			w.server.CheckHandlesInUse(t, fpgaProvider(), 0)
		})
	}
}

func TestDeviceInUseIsNotProgrammed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:bitstream_id":"`+imageOne+`"`)
		w.profile("plain", `[{"resources:FPGA":"1"}]`)
		plain := w.arqs("plain")[0]
		w.want(w.patch(binding(instanceA, fpgaProvider(), plain)), 202, "")
		refused := "deployable cn0_0000:3b:00.0 is in use by ARQ " + plain + " and cannot be programmed"
		w.want(w.bindF(instanceB, "f"), 409, refused)
		checkStates(t, w, "Bound", "BindFailed")
		w.want(w.programAPI(imageOne, ""), 409, refused)
		w.profile("named", `[{"resources:FPGA":"1","accel:bitstream_name":"gzip-v1"}]`)
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
		w.want(w.bindF(instanceB, "named"), 202, "") // Glance has to be asked first
		checkStates(t, w, "Bound", "BindFailed")
		if len(card.images) != 0 {
			t.Error("the device of another request was programmed")
		}
	})
}

// TestARegionBeingProgrammedIsNotShared: between the answer and the end of
// a bind the region belongs to it.
func TestARegionBeingProgrammedIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := fpgaWorld(t, fakecyborg.Config{BindDelay: time.Second}, `"accel:bitstream_id":"`+imageOne+`"`)
		w.profile("plain", `[{"resources:FPGA":"1"}]`)
		first := w.arqs("f")[0]
		w.want(w.patch(binding(instanceA, fpgaProvider(), first)), 202, "")
		for _, profile := range []string{"plain", "f"} {
			w.want(w.patch(binding(instanceB, fpgaProvider(), w.arqs(profile)...)), 409, "deployable cn0_0000:3b:00.0 is being programmed for ARQ "+first)
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
		}
		elapse(2 * time.Second)
		w.server.CheckBound(t, instanceA, 1)
		w.want(w.patch(binding(instanceB, fpgaProvider(), w.arqs("plain")...)), 202, "")
		elapse(2 * time.Second)
		w.server.CheckBound(t, instanceB, 1)
	})
}

// TestARegionThatIsStillWrittenIsNotShared has a driver that ignores its context, so that its call is given up.
func TestARegionThatIsStillWrittenIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{BindDelay: time.Second}, `"accel:bitstream_id":"`+imageOne+`"`)
		w.profile("plain", `[{"resources:FPGA":"1"}]`)
		card.writes = make(chan struct{})
		w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 202, "")
		time.Sleep(time.Hour)
		if got := w.states(); !slices.Equal(got, []fakecyborg.State{fakecyborg.StateBindFailed}) {
			t.Errorf("states %v", got)
		}
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		w.want(w.patch(binding(instanceB, fpgaProvider(), w.arqs("plain")...)), 409, "deployable cn0_0000:3b:00.0 is being programmed")
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
		close(card.writes)
		synctest.Wait()
		w.want(w.patch(binding(instanceB, fpgaProvider(), w.arqs("plain")...)), 202, "")
		elapse(2 * time.Second)
		w.server.CheckBound(t, instanceB, 1)
	})
}

func TestPreprogrammedRegionIsNotProgrammed(t *testing.T) {
	t.Parallel()
	no := false
	for _, place := range []string{"device", "region"} {
		synctest.Test(t, func(t *testing.T) {
			d := fpgaCard("FPGA")
			d.Deployables[0].Traits = append(d.Deployables[0].Traits, "CUSTOM_PROGRAMMABLE")
			if place == "device" {
				d.Programmable = &no
			} else {
				d.Deployables[0].Programmable = &no
			}
			card := newHardware("test", d)
			w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t))
			if traits := w.server.Deployables()[0].Traits(); slices.Contains(traits, "CUSTOM_PROGRAMMABLE") || !slices.Contains(traits, "CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO") {
				t.Errorf("%s: traits %v", place, traits)
			}
			refused := "deployable cn0_0000:3b:00.0 is pre-programmed and cannot be programmed"
			w.want(w.programAPI(imageOne, ""), 409, refused)
			w.profile("other", `[{"resources:FPGA":"1","accel:function_id":"one"}]`)
			w.want(w.bindF(instanceA, "other"), 409, refused)
			w.profile("loaded", `[{"resources:FPGA":"1","accel:function_id":"zero"}]`)
			w.want(w.bindF(instanceB, "loaded"), 202, "")
			w.server.CheckBound(t, instanceB, 1)
			if len(card.images) != 0 {
				t.Errorf("%s: written %q", place, card.images)
			}
		})
	}
}

func TestOwnerProgramsAtRunTime(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		w, card := fpgaWorld(t, fakecyborg.Config{RuntimeProgramming: allowed}, `"accel:x":"y"`)
		made := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"f"}`, token: "demo"})
		arq := made.list(t, "arqs")[0]["uuid"].(string)
		denied := "Access was denied to the following resource: cyborg:deployable:program"
		w.want(w.programAPI(imageOne, "demo"), 403, denied) // nothing is bound yet
		w.want(w.patch(binding(instanceA, fpgaProvider(), arq)), 202, "")
		w.want(w.programAPI(imageOne, "stranger"), 403, denied)
		if !allowed {
			w.want(w.programAPI(imageOne, "demo"), 403, denied)
			continue
		}
		w.want(w.programAPI(imageOne, ""), 409, "") // nor may an administrator program it
		w.want(w.programAPI(imageOne, "demo"), 200, "")
		if got := w.server.Deployables()[0].BitstreamID; got != imageOne || len(card.images) != 1 {
			t.Errorf("bitstream %s, %d images written", got, len(card.images))
		}
		w.want(w.patch(binding(instanceB, fpgaProvider(), w.arqs("f")...)), 202, "") // the other handle of the region
		w.want(w.programAPI(imagePlain, "demo"), 403, denied)
	}
}

func TestImageOfTheInstanceIsUsedWhereTheGroupNamesNone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		use             bool
		group           string // the key of the group; x means nothing
		image           string
		property, value string // of the image of the guest
		status          int
		written         string
	}{
		{false, "x", `"` + imageGuest + `"`, "function_id", functionUUID, 201, ""},
		{false, "x", `"` + unknownID + `"`, "", "", 201, ""},
		{true, "x", `"` + imageGuest + `"`, "function_id", functionUUID, 201, "uuid"},
		{true, "x", `"` + imageGuest + `"`, "function_id", strings.ReplaceAll(functionUUID, "-", ""), 201, "uuid"},
		{true, "x", `"` + imageGuest + `"`, "function_name", "gzip", 201, "bits"},
		{true, "x", `"` + imageGuest + `"`, "bitstream_id", imagePlain, 201, "plain"},
		{true, "x", `"` + imageGuest + `"`, "bitstream_name", "gzip-v1", 201, "bits"},
		{true, "function_id", `"` + imageGuest + `"`, "function_id", "one", 201, "bits"},
		{true, "function_name", `"` + imageGuest + `"`, "function_name", "gzip", 201, "bits"},
		{true, "bitstream_name", `"` + imageGuest + `"`, "bitstream_name", "gzip-v1", 201, "bits"},
		{true, "bitstream_name", `"` + unknownID + `"`, "", "gzip-v1", 201, "bits"}, // it is not read
		{true, "x", `"` + imagePlain + `"`, "", "", 201, ""},
		{true, "x", `null`, "", "", 201, ""},
		{true, "x", `"` + unknownID + `"`, "", "", 404, ""},
		{true, "x", `"x"`, "", "", 400, ""},
		{true, "x", `[]`, "", "", 400, ""},
		{true, "x", `"` + imageOne + `"`, "", "", 400, ""}, // which of its names is meant?
	} {
		synctest.Test(t, func(t *testing.T) {
			glance := images(t)
			if tt.property != "" {
				addGuestImages(t, glance, tt.property, tt.value)
			}
			w, card := fpgaWorld(t, fakecyborg.Config{UseImageUUID: tt.use}, fmt.Sprintf(`"accel:%s":%q`, tt.group, tt.value), withGlance(glance))
			r := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: fmt.Sprintf(`{"device_profile_name":"f","image_uuid":%s}`, tt.image)})
			w.want(r, tt.status, "")
			if tt.status != 201 {
				checkStates(t, w)
				return
			}
			arq := r.list(t, "arqs")[0]["uuid"].(string)
			w.want(w.patch(binding(instanceA, fpgaProvider(), arq)), 202, "")
			synctest.Wait()
			w.server.CheckBound(t, instanceA, 1)
			if got := string(slices.Concat(card.images...)); got != tt.written {
				t.Errorf("%+v: written %q", tt, got)
			}
		})
	}
}

// The image of a guest is never written to a region.
func TestTheImageOfTheInstanceIsNoBitstream(t *testing.T) {
	t.Parallel()
	for property, failure := range map[string]string{
		"bitstream_id":   "bitstream_id " + imageGuest + " is the image of the instance, not a bitstream",
		"bitstream_name": "bitstream_name " + imageGuest + ": 2 images have it, want exactly one", // the others
	} {
		synctest.Test(t, func(t *testing.T) {
			glance := images(t)
			addGuestImages(t, glance, property, imageGuest)
			w, card := fpgaWorld(t, fakecyborg.Config{UseImageUUID: true}, `"accel:x":"y"`, withGlance(glance))
			r := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: fmt.Sprintf(`{"device_profile_name":"f","image_uuid":%q}`, imageGuest)})
			w.want(w.patch(binding(instanceA, fpgaProvider(), r.list(t, "arqs")[0]["uuid"].(string))), 202, "")
			synctest.Wait()
			if got := w.server.ARQs()[0]; got.State != fakecyborg.StateBindFailed || !strings.Contains(got.Failure, failure) || len(card.images) > 0 {
				t.Errorf("%s: %s %q, written %q", property, got.State, got.Failure, card.images)
			}
		})
	}
}

// TestImageServiceThatHangsDoesNotKeepABind: the bind fails with its timeout.
func TestImageServiceThatHangsDoesNotKeepABind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		w, _ := fpgaWorld(t, fakecyborg.Config{BindTimeout: 30 * time.Second}, `"accel:function_id":"one"`, withGlance(hanging))
		w.want(w.bindF(instanceA, "f"), 202, "")
		elapse(29 * time.Second)
		checkStates(t, w, "BindStarted")
		elapse(time.Second)
		checkStates(t, w, "BindFailed")
		if got := w.nova.sent(); len(got) != 1 || got[0][0].Status != "failed" || w.used() != 0 {
			t.Errorf("events %v, %d handles in use", got, w.used())
		}
	})
}

// TestProgrammingEndsWithItsCaller while it waits for the image service.
func TestProgrammingEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		w, _ := fpgaWorld(t, fakecyborg.Config{}, `"accel:x":"y"`, withGlance(hanging))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := w.server.ProgramDeployable(ctx, w.server.Deployables()[0].UUID, imageOne)
		if waited := time.Since(start); waited != time.Minute || err == nil {
			t.Errorf("%v after %s", err, waited)
		}
	})
}

func TestXilinxDriverIsUnreachableUpstream(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		d := fpgaCard("FPGA")
		d.Deployables[0].DriverName = "XILINX"
		w := newWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, []driver.Driver{newHardware("test", d)}, withImages(t))
		w.want(w.programAPI(imageOne, ""), either(quirks, 200, 500), "")
	}
}

// TestFunctionTraitsFollowInEveryPlacementMode: the trait is set on the region's provider, which
// in flat mode is the provider of the host.
func TestFunctionTraitsFollowInEveryPlacementMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeFlat, fakecyborg.ModeNested} {
		placement := newPlacement(t)
		host := placement.ResourceProviders()[0].UUID
		card := fpgaCard("FPGA")
		if mode == fakecyborg.ModeNested { // regions need a second one to be nested
			second := named("cn0_region2", fpgaCard("FPGA")).Deployables[0]
			second.AttachHandles = []driver.AttachHandle{{Type: driver.HandlePCI, Info: pciInfo("3b", "3")}}
			second.NumAccelerators = 1
			card.Deployables = append(card.Deployables, second)
		}
		w := newWorld(t, fakecyborg.Config{PlacementMode: mode}, []driver.Driver{newHardware("test", card)}, withImages(t), withPlacement(placement))
		w.want(w.programAPI(imageOne, ""), 200, "")
		provider := either(mode == fakecyborg.ModeFlat, fpgaProvider(), host)
		for _, when := range []string{"programmed", "reported"} {
			p, err := placement.ResourceProvider(provider)
			settled(t, err)
			has := func(trait string) bool { return slices.Contains(p.Traits, trait) }
			if !has("CUSTOM_FPGA_FUNCTION_ID_TEST_ONE") || has("CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO") || !has("CUSTOM_FPGA_INTEL") {
				t.Errorf("%s, %s: traits %v", mode, when, p.Traits)
			}
			if err := w.server.Report(t.Context()); err != nil {
				t.Fatal(mode, err)
			}
		}
	}
}
