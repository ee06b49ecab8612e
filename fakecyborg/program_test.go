package fakecyborg_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fakecyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// The images of glance: one with the function "one", two with "two".
const (
	imageOne = "cccccccc-0000-4000-8000-000000000001"
	imageBad = "cccccccc-0000-4000-8000-000000000002"
)

func glance() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		function := r.URL.Query().Get("accel:function_id")
		switch {
		case strings.HasSuffix(r.URL.Path, imageOne+"/file"):
			_, _ = w.Write([]byte("bits"))
		case strings.HasSuffix(r.URL.Path, imageBad+"/file"):
			_, _ = w.Write([]byte("bad bits"))
		case r.URL.Path == "/v2/images":
			list := map[string][]map[string]string{
				"one": {{"id": imageOne}}, "two": {{"id": imageOne}, {"id": imageBad}}, "bad": {{"id": imageBad}},
			}[function]
			simhttp.WriteJSON(w, http.StatusOK, map[string]any{"images": list})
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

// fpgaWorld is a world with one FPGA of two regions, and a profile "f" that
// wants what accel says.
func fpgaWorld(t *testing.T, cfg fakecyborg.Config, accel string) (*world, *hardware) {
	t.Helper()
	card := newHardware("test", gpu("3b", "FPGA", nil, "1", "2"))
	w := newWorld(t, cfg, []driver.Driver{card}, fakecyborg.WithGlance(fakecyborg.Endpoint{
		URL: "http://glance.invalid/v2", Client: &http.Client{Transport: simhttp.NewTransport(glance())},
	}))
	w.profile("f", `[{"resources:FPGA":"1",`+accel+`}]`)
	return w, card
}

func fpgaProvider() string { return driver.ProviderUUID("cn0_0000:3b:00.0") }

func TestCY066BitstreamIsProgrammedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:bitstream_id":"`+imageOne+`"`)
		w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 202, "")
		synctest.Wait()
		w.want(w.patch(binding(instanceB, fpgaProvider(), w.arqs("f")...)), 202, "")
		synctest.Wait()
		w.server.CheckBound(t, instanceA, 1)
		w.server.CheckBound(t, instanceB, 1)
		if got := w.server.Deployables()[0].BitstreamID; got != imageOne || len(card.images) != 1 || string(card.images[0]) != "bits" {
			t.Errorf("bitstream %s, images written %q", got, card.images)
		}
		if got := w.nova.sent(); len(got) != 2 {
			t.Errorf("events: %v", got)
		}
	})
}

func TestCY067FunctionIsFoundInGlance(t *testing.T) {
	t.Parallel()
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
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, card := fpgaWorld(t, fakecyborg.Config{}, accel)
				w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 202, "")
				synctest.Wait()
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

func TestCY068BothSelectorsAreRefused(t *testing.T) {
	t.Parallel()
	w, _ := fpgaWorld(t, fakecyborg.Config{}, `"accel:function_id":"one","accel:bitstream_id":"`+imageOne+`"`)
	w.want(w.patch(binding(instanceA, fpgaProvider(), w.arqs("f")...)), 400,
		"In device profile {0}, only one among bitstream_id and function_id must be set, but both are set")
	checkStates(t, w, "BindFailed")
	if w.used() != 0 || len(w.nova.sent()) != 0 {
		t.Errorf("%d handles, events %v", w.used(), w.nova.sent())
	}
}

func TestDeviceInUseIsNotProgrammed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:bitstream_id":"`+imageOne+`"`)
		w.profile("plain", `[{"resources:FPGA":"1"}]`)
		plain := w.arqs("plain")[0]
		w.want(w.patch(binding(instanceA, fpgaProvider(), plain)), 202, "")
		r := w.patch(binding(instanceB, fpgaProvider(), w.arqs("f")...))
		w.want(r, 409, "deployable cn0_0000:3b:00.0 is in use by ARQ "+plain+" and cannot be programmed")
		checkStates(t, w, "Bound", "BindFailed")
		if len(card.images) != 0 {
			t.Error("the device of another request was programmed")
		}
	})
}
