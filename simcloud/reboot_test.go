package simcloud_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestMediatedDevicesAreCreatedAgainAfterARestart(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		t.Run(fmt.Sprintf("quirks=%t", quirks), func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{UpstreamQuirks: quirks}})
			const instance = "aaaaaaaa-0000-4000-8000-000000000001"
			provider := driver.ProviderUUID("cn0_0000:af:00.0") // has the vGPUs
			arqs, err := cloud.Cyborg.CreateARQs("vgpu", "tenant")
			must(t, err)
			must(t, cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: instance}))
			checkMdevs(t, cloud, "cn0", 1)
			must(t, cloud.StopHost("cn0"))
			checkMdevs(t, cloud, "cn0", 0)
			must(t, cloud.StartHost(t.Context(), "cn0"))
			want := 1
			if quirks {
				want = 0
			}
			checkMdevs(t, cloud, "cn0", want)
			cloud.Cyborg.CheckBound(t, instance, 1)
			for path, status := range map[string]int{"/_sim/hosts/cn0/reboot": 204, "/_sim/hosts/cn9/reboot": 404, "/_sim/hosts/cn9/start": 404} {
				if got, _ := ask(t, cloud, "POST", path, ""); got != status {
					t.Errorf("POST %s: %d, want %d", path, got, status)
				}
			}
			checkMdevs(t, cloud, "cn0", want)
			for _, path := range []string{"/_sim/hosts/cn0/stop", "/_sim/hosts/cn0/start"} {
				if got, text := ask(t, cloud, "POST", path, ""); got != 204 {
					t.Errorf("POST %s: %d %s", path, got, text)
				}
			}
			must(t, cloud.Cyborg.DeleteARQs(t.Context(), arqs[0].UUID))
			checkMdevs(t, cloud, "cn0", 0)
		})
	}
}

func TestAHostWithADirectoryCannotBeStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "bus/pci/devices"), 0o755))
	cloud := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Dir: dir}}}})
	if err := cloud.RebootHost(t.Context(), "cn0"); !errors.Is(err, simcloud.ErrDirectory) {
		t.Error(err)
	}
	if got, _ := ask(t, cloud, "POST", "/_sim/hosts/cn0/reboot", ""); got != 409 {
		t.Errorf("status %d", got)
	}
	if err := cloud.RebootHost(t.Context(), "cn9"); !errors.Is(err, simcloud.ErrHost) {
		t.Error(err)
	}
}

// A guest runs on a host of the cloud, or is not scheduled. The error about another host names those that there are.
func TestAGuestRunsOnAHostOfTheCloud(t *testing.T) {
	t.Parallel()
	small := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{{Name: "cn0.example.org", Fallback: "cn0"}, {Name: "cn1"}}})
	large := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{
		{Name: "a1"}, {Name: "a2"}, {Name: "a3"}, {Name: "gpu-1"}, {Name: "gpu-2"}, {Name: "gpu-10"}, {Name: "b1"}, {Name: "b2"}, {Name: "b3"},
	}})
	for _, tt := range []struct {
		cloud      *simcloud.Cloud
		host, want string
	}{
		{small, "", ""},
		{small, "cn0.example.org", ""},
		{small, "cn0", ""},
		{small, "cn7", `no such host: "cn7"; the hosts are cn0.example.org, cn1`},
		{large, "gpu-11", `no such host: "gpu-11"; the nearest of 9 is gpu-10`},
		{large, "GPU-1", `no such host: "GPU-1"; the nearest of 9 is gpu-1`},
		{simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{}}), "cn0", `no such host: "cn0"; the cloud has no hosts`},
	} {
		err := tt.cloud.DefineGuest(sim.Guest{UUID: instance(1), Host: tt.host})
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, simcloud.ErrHost) || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("host %q: %v, want %q", tt.host, err, tt.want)
		}
		if guests := tt.cloud.Guests(); tt.want != "" && len(guests) > 0 && guests[0].Host == tt.host {
			t.Errorf("host %q: the guest is defined", tt.host)
		}
	}
}

// TestProgrammingReadsTheBitstreamFromTheImageService programs the FPGA of the default model and
// checks the traits of its provider.
func TestProgrammingReadsTheBitstreamFromTheImageService(t *testing.T) {
	t.Parallel()
	const image = "cccccccc-0000-4000-8000-000000000001"
	model := simcloud.Model{Images: []simcloud.Image{{
		ID: image, Name: "gzip", Properties: map[string]string{"accel:function_id": "d8424dc4-a4a3-c413-f89e-433683f9040b"},
		Data: `{"afu-image": {"accelerator-clusters": [{"accelerator-type-uuid": "d8424dc4-a4a3-c413-f89e-433683f9040b"}]}}`,
	}}}
	cloud := simcloud.Run(t, model)
	part := cloud.Cyborg.Deployables()[slices.IndexFunc(cloud.Cyborg.Deployables(), func(d fakecyborg.StoredDeployable) bool {
		return d.DriverName == "intel"
	})]
	must(t, cloud.Cyborg.ProgramDeployable(t.Context(), part.UUID, image))
	cloud.Cyborg.CheckBitstream(t, part.ProviderUUID, image)
	provider, err := cloud.Placement.ResourceProvider(part.ProviderUUID)
	if err != nil || !slices.Contains(provider.Traits, "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B") {
		t.Errorf("traits %v, %v", provider.Traits, err)
	}
	added, err := cloud.AddImage(simcloud.Image{Name: "empty"})
	if err != nil || added.ID == "" || len(cloud.Images()) != 2 {
		t.Errorf("%v, %v, %v", added, err, cloud.Images())
	}
	if _, err := cloud.AddImage(simcloud.Image{ID: image}); err == nil {
		t.Error("an id was taken twice")
	}
}

// TestAFunctionThatPlacementRefusedIsIgnored has Placement refuse the traits of a region
// while its host restarts, and then the traits of the image that was written to it. The card does
// not have the function that the driver has always reported.
func TestAFunctionThatPlacementRefusedIsIgnored(t *testing.T) {
	t.Parallel()
	const image, other, written, shown = "cccccccc-0000-4000-8000-000000000001", "cccccccc-0000-4000-8000-000000000002",
		"CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B", "CUSTOM_FPGA_FUNCTION_ID_INTEL_C6AA954A9B914A37ABC11D9F0709DCC3"
	card := driver.PCIAddress{Bus: 0x3b}
	cloud := simcloud.Run(t, simcloud.Model{
		Images: []simcloud.Image{
			{ID: image, Data: "{}", Properties: map[string]string{"accel:function_id": "d8424dc4-a4a3-c413-f89e-433683f9040b"}},
			{ID: other, Data: "{}", Properties: map[string]string{"accel:function_id": "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"}},
		},
		Hosts: []simcloud.Host{{Name: "cn0", Devices: []driver.Device{{
			Vendor: "8086", Model: "PAC", Type: driver.TypeFPGA, ControlPath: card.ControlPath(), Deployables: []driver.Deployable{{
				Name: "cn0_card", NumAccelerators: 1, DriverName: "intel_fpga", Class: "FPGA", Traits: []string{shown},
				AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: card.Info()}},
			}},
		}}}},
	})
	region := cloud.Cyborg.Deployables()[0]
	functions := func() []string {
		provider, err := cloud.Placement.ResourceProvider(region.ProviderUUID)
		must(t, err)
		return slices.DeleteFunc(provider.Traits, func(trait string) bool { return !driver.IsFunctionTrait(trait) })
	}
	must(t, errors.Join(
		cloud.Cyborg.ProgramDeployable(t.Context(), region.UUID, image),
		cloud.Faults().Set(fault.Rule{Operation: fault.RPTraitsPut, Action: fault.Status, Status: http.StatusServiceUnavailable, Times: -1}),
		cloud.StopHost("cn0"),
	))
	started, programmed := cloud.StartHost(t.Context(), "cn0"), cloud.Cyborg.ProgramDeployable(t.Context(), region.UUID, other)
	if started == nil || programmed == nil {
		t.Errorf("without Placement: start %v, program %v", started, programmed)
	}
	cloud.Faults().Clear()
	if err := cloud.Cyborg.Report(t.Context()); err != nil || len(functions()) > 0 {
		t.Errorf("Placement is back: %v, functions %v", err, functions())
	}
	if err := errors.Join(cloud.Cyborg.ProgramDeployable(t.Context(), region.UUID, image), cloud.Cyborg.Report(t.Context())); err != nil {
		t.Error(err)
	}
	if got := functions(); !slices.Equal(got, []string{written}) {
		t.Errorf("functions %v, want %s", got, written)
	}
}

func TestNewRefusesABadImage(t *testing.T) {
	t.Parallel()
	_, err := simcloud.New(t.Context(), simcloud.Model{Images: []simcloud.Image{{ID: "x"}}})
	if !errors.Is(err, simcloud.ErrModel) || !strings.Contains(err.Error(), "images[0]") {
		t.Error(err)
	}
}

func TestAModelFileMakesAnFPGAPreprogrammed(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(simcloud.DefaultModel())
	must(t, err)
	text := strings.ReplaceAll(string(data), `"drivers":{`, `"drivers":{"fpga":{"programmable":false},`)
	const image = "cccccccc-0000-4000-8000-000000000001"
	text = strings.Replace(text, `"flavors":`, `"images":[{"id":"`+image+`","data":"bits"}],"flavors":`, 1)
	model, err := simcloud.ParseModel([]byte(text))
	must(t, err)
	cloud := simcloud.Run(t, model)
	for _, part := range cloud.Cyborg.Deployables() {
		if part.DriverName != "intel" {
			continue
		}
		err := cloud.Cyborg.ProgramDeployable(t.Context(), part.UUID, image)
		if err == nil || !strings.Contains(err.Error(), "deployable "+part.Name+" is pre-programmed") {
			t.Errorf("%s: %v", part.Name, err)
		}
	}
}

func ExampleCloud_RebootHost() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	var provider string
	for _, part := range cloud.Cyborg.Deployables() {
		if part.Hostname == "cn0" && part.ResourceClass() == "VGPU" {
			provider = part.ProviderUUID
		}
	}
	arqs, err := cloud.Cyborg.CreateARQs("vgpu", "project")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = cloud.Cyborg.Bind(ctx, fakecyborg.Binding{
		ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: "aaaaaaaa-0000-4000-8000-000000000001",
	})
	before, _ := cloud.Mdevs("cn0")
	fmt.Println(len(before), "mediated device,", err)
	err = cloud.RebootHost(ctx, "cn0")
	after, _ := cloud.Mdevs("cn0")
	fmt.Println("the same after a restart:", slices.Equal(before, after), err)
	// Output:
	// 1 mediated device, <nil>
	// the same after a restart: true <nil>
}
