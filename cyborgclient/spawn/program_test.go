package spawn_test

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

const (
	imageGzip   = "cccccccc-0000-4000-8000-000000000001"
	imageCrypto = "cccccccc-0000-4000-8000-000000000002"
	imageTwin   = "cccccccc-0000-4000-8000-000000000003"
	imageGuest  = "cccccccc-0000-4000-8000-000000000004"
	imageAES    = "cccccccc-0000-4000-8000-000000000005"
	gzipID      = "d8424dc4-a4a3-c413-f89e-433683f9040b"
	cryptoID    = "9aeffe5f-8457-0612-c000-c9660d824272"
	gzipTrait   = "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B"
	cryptoTrait = "CUSTOM_FPGA_FUNCTION_ID_INTEL_9AEFFE5F84570612C000C9660D824272"
)

// fpgaImage is the metadata of an image for the cards with an Arria 10.
func fpgaImage(function string) string {
	return `{"afu-image": {"interface-uuid": "9926ab6d-6c92-5a68-aabc-a7d84c545738", "accelerator-clusters": [{"accelerator-type-uuid": "` + function + `"}]}}`
}

// programModel has the images of two functions, and one function in two images.
func programModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	image := func(id, function, name string) simcloud.Image {
		return simcloud.Image{ID: id, Name: name, Data: fpgaImage(function), Properties: map[string]string{
			"accel:function_id": function, "accel:function_name": name,
		}}
	}
	model.Images = []simcloud.Image{
		image(imageGzip, gzipID, "gzip"), image(imageCrypto, cryptoID, "crypto"), image(imageTwin, "7a1c5f0e-3d52-4b8e-9c11-2f6d0a4b8e77", "crypto"),
		image(imageAES, "5fd1ef4c-92b5-4cd4-9c9e-0ea2b5a3f1d7", "aes"),
	}
	model.Cyborg.RuntimeProgramming = true
	return &model
}

// functions returns the function traits of a region.
func functions(t *testing.T, region cyborgclient.Deployable) []string {
	t.Helper()
	attributes, err := region.Attributes()
	settled(t, err)
	var traits []string
	for _, a := range attributes {
		if strings.HasPrefix(a.Value, "CUSTOM_FPGA_FUNCTION_") {
			traits = append(traits, a.Value)
		}
	}
	return traits
}

func TestProgramLoadsAnotherFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: programModel()})
		i := s.spawn(t, "fpga")
		before := s.usage(t, i)
		steps := []struct {
			name    string
			request spawn.ProgramRequest
			image   string
			was, is []string
		}{
			{"a bitstream", spawn.ProgramRequest{Bitstream: imageGzip}, imageGzip, nil, []string{gzipTrait}},
			{"a function by id", spawn.ProgramRequest{FunctionID: cryptoID}, imageCrypto, []string{gzipTrait}, []string{cryptoTrait}},
			{"a function by name", spawn.ProgramRequest{FunctionName: "gzip"}, imageGzip, []string{cryptoTrait}, []string{gzipTrait}},
			{"a function by its UUID as sysfs has it", spawn.ProgramRequest{FunctionID: "5fd1ef4c92b54cd49c9e0ea2b5a3f1d7"}, imageAES,
				[]string{gzipTrait}, []string{"CUSTOM_FPGA_FUNCTION_ID_INTEL_5FD1EF4C92B54CD49C9E0EA2B5A3F1D7"}},
		}
		for _, step := range steps {
			step.request.Instance, step.request.ARQ = i.UUID, i.ARQs[0]
			done, err := s.flow.Program(t.Context(), step.request)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if done.Image != step.image || *done.After.BitstreamID != step.image {
				t.Errorf("%s: %+v, want image %s", step.name, done, step.image)
			}
			checkDiff(t, step.name+": traits before and after (-want +got)", [][]string{step.was, step.is}, [][]string{functions(t, done.Before), functions(t, done.After)})
			s.cloud.Cyborg.CheckBitstream(t, before.ARQs[0].DeviceRPUUID, step.image)
			s.running(t, i, true)
		}
		after := s.usage(t, i)
		checkDiff(t, "the ARQ or the allocation changed (-before +after)", before, after)
		s.sound(t)
	})
}

func TestAFailedProgramNamesTheOldAndThePresentFunction(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		rule    fault.Rule
		done    bool   // the reply was lost, not the programming
		present string // in the error
	}{
		{"refused", fault.Rule{Operation: fault.DeployableProgram, Action: fault.Status, Status: 409}, false, gzipTrait},
		{"failed", fault.Rule{Operation: fault.DeployableProgram, Action: fault.Status, Status: 500}, false, gzipTrait},
		{"the agent fails", fault.Rule{Operation: fault.DeployableWrite, Action: fault.Status}, false, gzipTrait},
		{"reply lost, nothing done", fault.Rule{Operation: fault.DeployableProgram, Action: fault.Drop}, false, gzipTrait},
		{"reply lost, done", fault.Rule{Operation: fault.DeployableProgram, Action: fault.Drop, When: fault.After}, true, ""},
		{"Placement is not told", fault.Rule{Operation: fault.RPTraitsPut, Action: fault.Status, Status: 500, Times: -1}, false, ""},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: programModel()})
			i := s.spawn(t, "fpga")
			request := spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: imageGzip}
			_, err := s.flow.Program(t.Context(), request)
			settled(t, err)
			s.fail(t, tt.rule)
			request.Bitstream = imageCrypto
			done, err := s.flow.Program(t.Context(), request)
			if tt.done {
				if err != nil || *done.After.BitstreamID != imageCrypto {
					t.Errorf("%+v, %v; want the lost reply settled", done, err)
				}
				return
			}
			if !errors.Is(err, spawn.ErrProgram) {
				t.Fatalf("error %v, want ErrProgram", err)
			}
			if tt.rule.Operation == fault.DeployableWrite && !strings.Contains(err.Error(), "FPGA programming failed: host cn0, device ") {
				t.Errorf("error %q does not name the host, the device and the cause", err)
			}
			for _, text := range []string{"before: bitstream " + imageGzip + ", " + gzipTrait + "; ", "present: ", tt.present, i.ARQs[0], i.UUID} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q does not name %q", err, text)
				}
			}
			if known := len(functions(t, done.After)) > 0; *done.Before.BitstreamID != imageGzip || known != (tt.present != "") {
				t.Errorf("with the error: %+v", done)
			}
			s.cloud.Faults().Clear()
			if arqs := s.arqs(t, i); arqs[0].State != cyborgclient.StateBound {
				t.Errorf("the ARQ is %s", arqs[0].State)
			}
			_, err = s.flow.Program(t.Context(), request) // again
			settled(t, err)
			s.sound(t)
		})
	}
}

// bitstreamsOfBinds imitates a released Cyborg, which shows the bitstream_id of the bind even after another program.
type bitstreamsOfBinds struct {
	next http.RoundTripper
	bind string
}

var shownBitstream = regexp.MustCompile(`"bitstream_id": ?("[^"]*"|null)`)

// RoundTrip implements http.RoundTripper.
func (b bitstreamsOfBinds) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil || !strings.Contains(req.URL.Path, "/deployables") || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	return answer(req, http.StatusOK, shownBitstream.ReplaceAllString(string(body), `"bitstream_id": "`+b.bind+`"`)), err
}

// Cyborg's record may name an image that the region no longer has. It does not prove that a failed program of that
// image has succeeded.
func TestARecordOfBeforeIsNoProofOfAProgram(t *testing.T) {
	t.Parallel()
	for _, rule := range []fault.Rule{{Action: fault.Status, Status: 500}, {Action: fault.Status, Status: 504}, {Action: fault.Drop}} {
		synctest.Test(t, func(t *testing.T) {
			model := programModel()
			model.DeviceProfiles = append(model.DeviceProfiles, regionProfile("gzip", "accel:bitstream_id", imageGzip))
			s := newSite(t, worldOpts{model: model})
			i := s.spawn(t, "gzip")
			provider := s.arqs(t, i)[0].DeviceRPUUID
			s.cloud.Cyborg.CheckBitstream(t, provider, imageGzip)
			s.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper { return bitstreamsOfBinds{next, imageGzip} })
			load := func(image string) error {
				_, err := s.flow.Program(t.Context(), spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: image})
				return err
			}
			settled(t, load(imageCrypto))
			rule.Operation, rule.Times = fault.DeployableProgram, -1
			s.fail(t, rule)
			if err := load(imageGzip); !errors.Is(err, spawn.ErrProgram) {
				t.Errorf("%s %d: got %v, want ErrProgram", rule.Action, rule.Status, err)
			}
			s.cloud.Cyborg.CheckBitstream(t, provider, imageCrypto) // what the region has
		})
	}
}

// An error of a proxy leaves the outcome unknown. A fault of Cyborg itself is conclusive.
func TestTheFaultOfAFailedProgramIsBelieved(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]error{
		`<html><head><title>504 Gateway Time-out</title></head><body><h1>504 Gateway Time-out</h1></body></html>`: nil,
		`{"error_message": "{\"faultcode\": \"Server\", \"faultstring\": \"Timed out\", \"debuginfo\": null}"}`:   spawn.ErrProgram,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: programModel()})
			i := s.spawn(t, "fpga")
			s.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(req)
				if err == nil && strings.HasSuffix(req.URL.Path, "/program") {
					resp = answer(req, http.StatusGatewayTimeout, body)
				}
				return resp, err
			})
			if _, err := s.flow.Program(t.Context(), spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: imageGzip}); !errors.Is(err, want) {
				t.Errorf("after %s: got %v, want %v", body, err, want)
			}
		})
	}
}

func TestProgramRefusesARQsOfOtherInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: programModel()})
		i := s.spawn(t, "fpga")
		other := "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b00f"
		unbound := s.createARQ(t, "fpga")
		tests := []struct {
			name    string
			request spawn.ProgramRequest
			want    error
		}{
			{"no instance", spawn.ProgramRequest{ARQ: i.ARQs[0], Bitstream: imageGzip}, spawn.ErrRequest},
			{"no ARQ", spawn.ProgramRequest{Instance: i.UUID, Bitstream: imageGzip}, spawn.ErrRequest},
			{"nothing to load", spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0]}, spawn.ErrRequest},
			{"two things", spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: imageGzip, FunctionName: "gzip"}, spawn.ErrRequest},
			{"a bitstream that is no UUID", spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: "gzip"}, spawn.ErrRequest},
			{"another instance", spawn.ProgramRequest{Instance: other, ARQ: i.ARQs[0], Bitstream: imageGzip}, spawn.ErrRequest},
			{"an ARQ that is not there", spawn.ProgramRequest{Instance: i.UUID, ARQ: other, Bitstream: imageGzip}, cyborgclient.ErrNotFound},
			{"an unbound ARQ", spawn.ProgramRequest{Instance: i.UUID, ARQ: unbound, Bitstream: imageGzip}, spawn.ErrRequest},
			{"an unknown function", spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionID: "nope"}, spawn.ErrRequest},
			{"a function of two images", spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionName: "crypto"}, spawn.ErrRequest},
			{"an image that is not there", spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: other}, spawn.ErrProgram},
		}
		for _, tt := range tests {
			if done, err := s.flow.Program(t.Context(), tt.request); !errors.Is(err, tt.want) {
				t.Errorf("%s: %+v, %v; want %v", tt.name, done, err, tt.want)
			}
		}
		settled(t, s.cloud.Cyborg.SetARQState(i.ARQs[0], fakecyborg.StateDeleting))
		request := spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], Bitstream: imageGzip}
		if _, err := s.flow.Program(t.Context(), request); !errors.Is(err, spawn.ErrNotBound) {
			t.Errorf("an ARQ that is being deleted: %v, want ErrNotBound", err)
		}
		for _, part := range s.cloud.Cyborg.Deployables() {
			if part.BitstreamID != "" {
				t.Errorf("something was written: %+v", part)
			}
		}
	})
}

// imageModel has a Cyborg that reads a property of the instance's image, profiles that name the bitstream or function
// to load, and profiles that leave it to the image.
func imageModel(property, value string) *simcloud.Model {
	model := programModel()
	model.Cyborg.UseImageUUID = true
	model.Images[0].Properties["accel:bitstream_name"] = "gzip-v1"
	model.Images = append(model.Images, simcloud.Image{ID: imageGuest, Name: "guest", Data: "disk", Properties: map[string]string{property: value}})
	model.DeviceProfiles = append(model.DeviceProfiles, regionProfile("any-function", "", ""), regionProfile("own-function", "accel:function_id", gzipID))
	return model
}

// regionProfile is a device profile for a region of the cards with an Arria 10 and the bitstream or function to load.
func regionProfile(name, key, value string) simcloud.DeviceProfile {
	group := map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL_PAC_ARRIA10": "required"}
	if key != "" {
		group[key] = value
	}
	return simcloud.DeviceProfile{Name: name, Groups: []map[string]string{group}}
}

// If the profile does not name a function, the function of the instance's image is loaded.
func TestTheImageNamesTheFunction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ profile, image, property, value, want string }{
		{"any-function", imageGuest, "bitstream_id", imageCrypto, cryptoTrait},
		{"any-function", imageGuest, "bitstream_name", "gzip-v1", gzipTrait},
		{"any-function", imageGuest, "function_id", gzipID, gzipTrait},
		{"any-function", imageGuest, "function_name", "gzip", gzipTrait},
		{"own-function", imageGuest, "bitstream_id", imageCrypto, gzipTrait},
		{"own-function", imageGuest, "function_id", gzipID, gzipTrait},
		{"own-function", port1, "", "", gzipTrait}, // no image of Glance, and not needed
		{"any-function", "", "", "", ""},
		{"gpu", port1, "", "", ""}, // not in Glance: with FPGAs the create would be refused
	} {
		bubble(t, tt.profile+" "+tt.image+" "+tt.property, func(t *testing.T) {
			s := newSite(t, worldOpts{model: imageModel("accel:"+tt.property, tt.value)})
			req := request(tt.profile)
			req.Image = tt.image
			result := s.spawned(t, req)
			check := func(result *spawn.Result) {
				t.Helper()
				traits := ""
				for _, d := range s.cloud.Cyborg.Deployables() {
					if d.ProviderUUID == result.ARQs[0].DeviceRPUUID {
						traits = strings.Join(d.Traits(), " ")
					}
				}
				if tt.want != "" && !strings.Contains(traits, tt.want) || tt.want == "" && strings.Contains(traits, "CUSTOM_FPGA_FUNCTION_") {
					t.Errorf("the region has %s, want %s", traits, tt.want)
				}
			}
			check(result)
			i := spawn.InstanceOf(req, result)
			settled(t, s.guests.Define(t.Context(), i, result.Domain))
			settled(t, s.ops.ShelveOffload(t.Context(), i))
			i.Host, i.ARQs = "", nil
			result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
			settled(t, err)
			check(result)
		})
	}
	w := newWorld(t, worldOpts{})
	req := request("gpu")
	req.Image = "cirros"
	if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("an image without a UUID: error %v, want ErrRequest", err)
	}
}

// The instance is deleted during the search for the image.
func TestProgramLeavesARegionThatTheInstanceHasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: programModel()})
		i := s.spawn(t, "fpga")
		region := s.usage(t, i).ARQs[0].DeviceRPUUID
		s.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "/v2/images") {
				settled(t, s.cyborg.DeleteARQs(req.Context(), i.ARQs))
			}
			return next.RoundTrip(req)
		})
		_, err := s.flow.Program(t.Context(), spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionName: "gzip"})
		if !errors.Is(err, cyborgclient.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound for the ARQ", err)
		}
		s.cloud.Cyborg.CheckBitstream(t, region, "")
	})
}
