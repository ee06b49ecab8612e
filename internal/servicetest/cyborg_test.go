package servicetest_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

const (
	instanceA = "aaaaaaaa-0000-4000-8000-000000000001"
	instanceB = "bbbbbbbb-0000-4000-8000-000000000002"
	unknownID = "99999999-0000-4000-8000-000000000000"
	bitstream = "cccccccc-0000-4000-8000-000000000001"
	project   = "11111111111111111111111111111111"
)

// cards is a driver that finds an FPGA and a GPU.
type cards struct{}

func (cards) Name() string { return "cards" }

func (cards) Discover(context.Context) (driver.Report, error) {
	card := func(kind, vendor, bus, class, trait string, functions ...string) driver.Device {
		d := driver.Deployable{
			Name: "cn0_0000:" + bus + ":00.0", NumAccelerators: len(functions), DriverName: "cards", Class: class, Traits: []string{trait},
		}
		address := driver.Info{"domain": "0000", "bus": bus, "device": "00", "function": "0"}
		for _, f := range functions {
			d.AttachHandles = append(d.AttachHandles, driver.AttachHandle{
				Type: driver.HandlePCI, Info: driver.Info{"domain": "0000", "bus": bus, "device": "00", "function": f},
			})
		}
		return driver.Device{
			Vendor: vendor, Model: "a card", Type: kind,
			ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: address}, Deployables: []driver.Deployable{d},
		}
	}
	return driver.Report{Devices: []driver.Device{
		card(driver.TypeFPGA, "0x8086", "3b", "FPGA", "CUSTOM_FPGA_INTEL", "1", "2"),
		card(driver.TypeGPU, "10de", "5e", "PGPU", "OWNER_CYBORG", "1"),
	}}, nil
}

func (cards) Program(context.Context, driver.ControlPath, string, []byte) error { return nil }

// newCyborg is a new server with two cards, one of them an FPGA, two profiles, an
// attribute, and two requests, the first of them bound.
func newCyborg(t *testing.T) (server *fakecyborg.Server, arqs []fakecyborg.ARQ, attribute fakecyborg.StoredAttribute) {
	t.Helper()
	images := glance.New(glance.Config{})
	_, err := images.AddImage(glance.Image{ID: bitstream, Data: []byte("bits")})
	must(t, err)
	server, err = fakecyborg.New(fakecyborg.Config{}, fakecyborg.WithClock(stopped()), fakecyborg.WithGlance(sim.Endpoint{
		URL: "http://glance.invalid/v2", Client: &http.Client{Transport: simhttp.NewTransport(images)},
		Token: func(context.Context) (string, error) { return "admin", nil },
	}))
	must(t, err)
	t.Cleanup(server.Close)
	must(t, server.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{cards{}}}))
	must(t, server.Report(t.Context()))
	for _, profile := range []struct{ name, class string }{{"f", "FPGA"}, {"g", "PGPU"}} {
		_, err = server.CreateDeviceProfile(profile.name, []map[string]string{{"resources:" + profile.class: "1"}})
		must(t, err)
	}
	for range 2 {
		made, err := server.CreateARQs("g", project)
		must(t, err)
		arqs = append(arqs, made...)
	}
	gpu := server.Deployables()[1]
	must(t, server.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: gpu.ProviderUUID, Instance: instanceA}))
	attribute, err = server.CreateAttribute(gpu.UUID, "k", "v")
	must(t, err)
	return server, arqs, attribute
}

func TestCyborgInputs(t *testing.T) {
	t.Parallel()
	server, arqs, attribute := newCyborg(t)
	fpga := server.Deployables()[0]
	post := func(path, body string) request { return request{method: "POST", path: path, body: body} }
	patch := func(path, body string) request { return request{method: "PATCH", path: path, body: body} }
	bind := `{"` + arqs[1].UUID + `": [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/instance_uuid", "value": "` + instanceB + `"},
		{"op": "add", "path": "/device_rp_uuid", "value": "` + fpga.ProviderUUID + `"}]}`
	program := `[{"op": "replace", "path": "/program", "value": [{"image_uuid": "` + bitstream + `"}]}]`
	profile := `[{"name": "n", "description": "d", "uuid": "` + unknownID + `", "id": 5, "created_at": "2026-11-01T00:00:00Z", "updated_at": "2026-11-01T00:00:00Z", "groups": [{"resources:FPGA": "1"}]}]`
	check(t, server.Routes(), []request{
		post("/v2/device_profiles", profile), post("/v2/device_profiles/x", profile),
		remove("/v2/device_profiles?value=f"),
		get("/v2/accelerator_requests?instance=" + instanceA + "&bind_state=resolved"),
		patch("/v2/accelerator_requests", bind), patch("/v2/accelerator_requests/x", bind),
		remove("/v2/accelerator_requests?arqs=" + arqs[1].UUID), remove("/v2/accelerator_requests?instance=" + instanceA),
		{method: "DELETE", path: "/v2/accelerator_requests/" + arqs[1].UUID + "?instance=" + instanceA, refused: true},
		get("/v2/devices?type=GPU"), get("/v2/devices?vendor=0x8086"), get("/v2/devices?hostname=cn1"),
		get("/v2/devices?filters.field=limit&filters.value=1"), get("/v2/devices?filters%5B0%5D.field=limit&filters%5B0%5D.value=1"),
		get("/v2/deployables?filters.field=limit&filters.value=1"), get("/v2/deployables?filters%5B0%5D.field=limit&filters%5B0%5D.value=1"),
		patch("/v2/deployables/"+fpga.UUID+"/program", program),
		get("/v2/attributes?deployable_id=2&key=k"), remove("/v2/attributes?uuid=" + attribute.UUID),
		post("/v2/attributes", `{"deployable_id": 2, "key": "a", "value": "b", "uuid": "`+unknownID+`", "id": 5, "created_at": "2026-11-01T00:00:00Z", "updated_at": "2026-11-01T00:00:00Z"}`),
	}, func(r request) answer {
		server, _, _ := newCyborg(t)
		r.version = "accelerator 2.1"
		got := send(t, server, r, "X-Auth-Token", "admin:"+project, "X-Service-Token", "nova", "Accept", "application/json")
		server.Close() // completes work that a bind has started
		for record, err := range server.Records() {
			must(t, err)
			got.seen += asJSON(t, record)
		}
		return got
	})
}
