package spawn_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// rankOf is the decision of the step that chose the host.
func rankOf(t *testing.T, result *spawn.Result) string {
	t.Helper()
	for _, step := range result.Trace {
		if step.Step == spawn.StepSelect {
			return step.Decision
		}
	}
	t.Fatal("no host was selected")
	return ""
}

func TestWeighersOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{config: spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFunction, spawn.WeigherFragments, spawn.WeigherNUMA}}})
	plain := spawn.Request{Instance: instance, Flavor: requestspec.Flavor{Name: "plain", VCPUs: 1}}
	result, err := w.flow.Run(t.Context(), plain)
	if err != nil || !strings.Contains(rankOf(t, result), "no programming is needed; partly used devices filled: 0") {
		t.Errorf("a flavor without a profile: %v", err)
	}
	ordered := plain
	ordered.Instance = secondInstance
	ordered.Order = spawn.OrderBy(func(matching.Candidate) (float64, string) { return 0, "the order of the request" })
	if result, err = w.flow.Run(t.Context(), ordered); err != nil || !strings.HasSuffix(rankOf(t, result), ": the order of the request") {
		t.Errorf("a request with an order: %v", err)
	}
	_, err = spawn.New(w.cyborg, nil, spawn.WithConfig(spawn.Config{Weighers: []spawn.Weigher{"luck"}}))
	if !errors.Is(err, spawn.ErrConfig) || !strings.Contains(err.Error(), `unknown weigher "luck"; known are fragments, function, numa`) {
		t.Errorf("unknown weigher: %v", err)
	}
}

// Each spawn finds the region that the first one has programmed, for every way in which a profile or the image of the
// instance names the function.
func TestEachSpawnFindsTheProgrammedRegion(t *testing.T) {
	t.Parallel()
	const nameless = "cccccccc-0000-4000-8000-000000000006" // which does not name its function by an id
	for _, tt := range []struct{ key, value, image, guestImage string }{
		{"accel:function_id", gzipID, imageGzip, ""},
		{"accel:function_id", strings.ReplaceAll(gzipID, "-", ""), imageGzip, ""},
		{"accel:function_name", "gzip", imageGzip, ""},
		{"accel:function_name", "nameless", nameless, ""},
		{"accel:bitstream_id", imageGzip, imageGzip, ""},
		{"accel:bitstream_id", nameless, nameless, ""},
		{"accel:bitstream_name", "gzip-v1", imageGzip, ""},
		{"accel:bitstream_name", "nameless-v1", nameless, ""},
		{"accel:function_id", gzipID, imageGzip, imageGuest},
		{"accel:function_name", "gzip", imageGzip, imageGuest},
		{"accel:bitstream_id", imageGzip, imageGzip, imageGuest},
		{"accel:bitstream_name", "nameless-v1", nameless, imageGuest},
	} {
		bubble(t, tt.key+" "+tt.value+" "+tt.guestImage, func(t *testing.T) {
			model := programModel()
			model.Cyborg.UseImageUUID = true
			model.Images[0].Properties["accel:bitstream_name"] = "gzip-v1"
			model.Images = append(model.Images, simcloud.Image{ID: nameless, Data: fpgaImage("0a1c5f0e-3d52-4b8e-9c11-2f6d0a4b8e77"), Properties: map[string]string{
				"accel:function_name": "nameless", "accel:bitstream_name": "nameless-v1",
			}})
			wants := regionProfile("wants", tt.key, tt.value)
			if tt.guestImage != "" {
				wants = regionProfile("wants", "", "")
				model.Images = append(model.Images, simcloud.Image{ID: imageGuest, Data: "disk", Properties: map[string]string{tt.key: tt.value}})
			}
			model.DeviceProfiles = append(model.DeviceProfiles, wants)
			s := newSite(t, worldOpts{model: model, config: spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFunction}}})
			first := ""
			for n := range 6 {
				req := request("wants")
				req.Instance, req.Image = fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n), tt.guestImage
				result, err := s.flow.Run(t.Context(), req)
				settled(t, err)
				region := result.ARQs[0].DeviceRPUUID
				reason := region + " has " + tt.value
				if n == 0 {
					first, reason = region, region+" has to be programmed with "+tt.value
				}
				if got := rankOf(t, result); region != first || !strings.HasSuffix(got, ": "+reason) {
					t.Errorf("spawn %d: decision %q, want %s", n, got, reason)
				}
				settled(t, s.ops.Delete(t.Context(), spawn.InstanceOf(req, result)))
			}
			s.cloud.Cyborg.CheckBitstream(t, first, tt.image)
			programmed := 0
			for _, d := range s.cloud.Cyborg.Deployables() {
				if d.BitstreamID != "" {
					programmed++
				}
			}
			if programmed != 1 {
				t.Errorf("%d regions are programmed, want 1", programmed)
			}
			s.sound(t)
		})
	}
}

// Two bitstreams with the same function differ: a region with the first is programmed with the second.
func TestABitstreamIsNotItsFunction(t *testing.T) {
	t.Parallel()
	bubble(t, "two versions", func(t *testing.T) {
		model := programModel()
		model.Images = append(model.Images, simcloud.Image{ID: imageGuest, Data: fpgaImage(gzipID), Properties: map[string]string{"accel:function_id": gzipID}})
		for name, image := range map[string]string{"v1": imageGzip, "v2": imageGuest} {
			model.DeviceProfiles = append(model.DeviceProfiles, regionProfile(name, "accel:bitstream_id", image))
		}
		s := newSite(t, worldOpts{model: model, config: spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFunction}}})
		for n, want := range []struct{ profile, reason string }{{"v1", "has to be programmed"}, {"v2", "has to be programmed"}, {"v2", " has " + imageGuest}} {
			req := request(want.profile)
			req.Instance = fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n)
			result, err := s.flow.Run(t.Context(), req)
			settled(t, err)
			if got := rankOf(t, result); !strings.Contains(got, want.reason) {
				t.Errorf("spawn %d of %s: decision %q, want %s", n, want.profile, got, want.reason)
			}
			settled(t, s.ops.Delete(t.Context(), spawn.InstanceOf(req, result)))
		}
	})
}

// The weigher reads only what it needs, and does not fail if a service does not answer.
func TestWhatTheWeigherOfFunctionsReads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key, value string
		fails      string // the end of a path
		want       []string
	}{
		{"", "", "", nil},
		{"accel:function_id", gzipID, "", nil},
		{"accel:function_name", "gzip", "", []string{"/v2/images"}},
		{"accel:bitstream_id", imageGzip, "", []string{"/v2/deployables"}},
		{"accel:bitstream_name", "gzip-v1", "", []string{"/v2/images", "/v2/deployables"}},
		{"accel:bitstream_name", "gzip-v1", "/v2/images", []string{"/v2/images"}},
		{"accel:bitstream_name", "gzip-v1", "/v2/deployables", []string{"/v2/images", "/v2/deployables"}},
	} {
		bubble(t, tt.key+" "+tt.fails, func(t *testing.T) {
			model := programModel()
			model.Images[0].Properties["accel:bitstream_name"] = "gzip-v1"
			model.DeviceProfiles = append(model.DeviceProfiles, regionProfile("wants", tt.key, tt.value))
			s := newSite(t, worldOpts{model: model})
			var read []string
			s.behind(t, spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFunction}}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				for _, path := range []string{"/v2/images", "/v2/deployables"} {
					if strings.HasSuffix(req.URL.Path, path) {
						read = append(read, path)
					}
				}
				if tt.fails != "" && strings.HasSuffix(req.URL.Path, tt.fails) {
					return answer(req, http.StatusForbidden, `{}`), nil
				}
				return next.RoundTrip(req)
			})
			result := s.spawned(t, request("wants"))
			checkDiff(t, "read (-want +got)", tt.want, read)
			if got := rankOf(t, result); strings.Contains(got, "; the content of regions is unknown: ") != (tt.fails != "") {
				t.Errorf("decision %q", got)
			}
		})
	}
}
