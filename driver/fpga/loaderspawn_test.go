package fpga_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// orchestrated is a cloud with a card whose function Cyborg programs before it is given to a guest.
func orchestrated(hardware *simcloud.Sysfs, loader string, image []byte) simcloud.Model {
	return simcloud.Model{
		Hosts: []simcloud.Host{{Name: "cn0", Sysfs: hardware, Drivers: &builtin.Config{
			EnabledDrivers: []string{builtin.IntelFPGA}, FPGA: &fpga.Config{BitstreamLoader: loader},
		}}},
		Images: []simcloud.Image{{ID: imageID, Data: string(image), Properties: map[string]string{"accel:function_id": id("d")}}},
		DeviceProfiles: []simcloud.DeviceProfile{{Name: "orchestrated", Groups: []map[string]string{{
			"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL_PAC_N3000": "required", "accel:bitstream_id": imageID,
		}}}},
	}
}

func TestAGuestGetsWhatTheLoaderProgrammed(t *testing.T) {
	t.Parallel()
	card := dflCard("0000:5f:00.0", 1, "2", "b")
	_, root := directory(t, drivertest.Tree(t, card))
	onDisk := orders{File: filepath.Join(root, "class/fpga_region/region1/dfl-port.1/afu_id"), Text: id("d") + "\n"}
	for name, model := range map[string]simcloud.Model{
		"a directory": orchestrated(&simcloud.Sysfs{Dir: root}, self(t), ordered(t, "2", "d", onDisk)),
		"in memory":   orchestrated(&simcloud.Sysfs{Devices: []sysfs.PCIDevice{card}}, self(t), ordered(t, "2", "d", orders{})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, cloud: simcloud.Run(t, model)}
			w.makeFlow()
			result := w.give(instanceA, "orchestrated", "5f:00.0")
			for _, when := range []string{"programmed", "reported again"} {
				provider, err := w.cloud.Placement.ResourceProvider(result.ARQs[0].DeviceRPUUID)
				if err != nil || !slices.Contains(provider.Traits, "CUSTOM_FPGA_FUNCTION_ID_INTEL_"+traitID("d")) || slices.Contains(provider.Traits, "CUSTOM_FPGA_FUNCTION_ID_INTEL_"+traitID("b")) {
					t.Errorf("%s: traits %v, %v", when, provider.Traits, err)
				}
				w.report()
			}
		})
	}
}

// A request whose card does not get its function fails with what went wrong.
func TestARequestFailsWithTheErrorOfTheLoader(t *testing.T) {
	t.Parallel()
	hardware := &simcloud.Sysfs{Devices: []sysfs.PCIDevice{dflCard("0000:5f:00.0", 1, "2", "b")}}
	_, root := directory(t, drivertest.Tree(t, hardware.Devices...))
	for name, tt := range map[string]struct {
		model simcloud.Model
		want  string
	}{
		"no loader":      {orchestrated(hardware, "", ordered(t, "2", "d", orders{})), "--bitstream-loader"},
		"another region": {orchestrated(hardware, self(t), ordered(t, "3", "d", orders{})), "for regions of type " + id("3")},
		"it fails":       {orchestrated(hardware, self(t), ordered(t, "2", "d", orders{Tells: true})), `bitstream loader: ` + self(t) + `: exit status 1: {"address"`},
		"nothing loaded": {orchestrated(&simcloud.Sysfs{Dir: root}, self(t), ordered(t, "2", "d", orders{})), `port 1 has the function "` + id("b") + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { failsToBind(t, tt.model, tt.want) })
		})
	}
}

func failsToBind(t *testing.T, model simcloud.Model, want string) {
	cloud := simcloud.Run(t, model)
	arqs, err := cloud.Cyborg.CreateARQs("orchestrated", "project")
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{
		ARQ: arqs[0].UUID, Host: "cn0", Provider: cloud.Cyborg.Deployables()[0].ProviderUUID, Instance: instanceA,
	}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the bind ends in the background
	if arq := cloud.Cyborg.ARQs()[0]; arq.State != fakecyborg.StateBindFailed || !strings.Contains(arq.Failure, want) {
		t.Errorf("the request is %s: %s; want BindFailed with %s", arq.State, arq.Failure, want)
	}
}

// A card that the loader has not been started for is as it was.
func TestARegionKeepsItsFunctionWithoutItsLoader(t *testing.T) {
	t.Parallel()
	loader := filepath.Join(t.TempDir(), "loader")
	if err := os.WriteFile(loader, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	hardware := &simcloud.Sysfs{Devices: []sysfs.PCIDevice{dflCard("0000:5f:00.0", 1, "2", "b")}}
	w := &world{t: t, cloud: simcloud.Run(t, orchestrated(hardware, loader, ordered(t, "2", "d", orders{})))}
	w.makeFlow()
	if err := os.Remove(loader); err != nil {
		t.Fatal(err)
	}
	region := w.cloud.Cyborg.Deployables()[0].ProviderUUID
	if _, err := w.spawn(instanceA, "orchestrated"); err == nil {
		t.Fatal("spawned without the function")
	}
	w.report()
	if got := w.functions(region); !slices.Equal(got, []string{"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("b")}) {
		t.Errorf("Placement has the functions %v", got)
	}
}
