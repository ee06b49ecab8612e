package fakecyborg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// A server alone, with the noauth conventions: a host reports its device, and a
// client makes a request for it and binds it.
func Example() {
	cyborg, err := fakecyborg.New(fakecyborg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cyborg.Close()
	host := driver.Host{Name: "compute1", Drivers: []driver.Driver{fake.New("compute1")}}
	fmt.Println(cyborg.AddHost(host), cyborg.Report(context.Background()))

	_, err = cyborg.CreateDeviceProfile("fpga", []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}})
	fmt.Println(err)

	send := func(method, body string) int {
		r := httptest.NewRequest(method, "/accelerator/v2/accelerator_requests", strings.NewReader(body))
		r.Header.Set("X-Auth-Token", "admin")
		r.Header.Set("X-Service-Token", "nova")
		w := httptest.NewRecorder()
		cyborg.ServeHTTP(w, r)
		_, _ = io.Copy(io.Discard, w.Result().Body)
		return w.Code
	}
	fmt.Println(send(http.MethodPost, `{"device_profile_name": "fpga"}`))
	arq := cyborg.ARQs()[0]
	fmt.Println(send(http.MethodPatch, fmt.Sprintf(`{%q: [
		{"path": "/hostname", "op": "add", "value": "compute1"},
		{"path": "/device_rp_uuid", "op": "add", "value": %q},
		{"path": "/instance_uuid", "op": "add", "value": "7f5a8a2e-3c3c-4ab6-9d8e-5b7b1f3f0001"}]}`,
		arq.UUID, driver.ProviderUUID("compute1_FakeDevice"))))
	arq = cyborg.ARQs()[0]
	fmt.Println(arq.State, arq.AttachHandleType, arq.AttachHandleInfo["function"])
	fmt.Println(cyborg.Events()[0].Status)
	// Output:
	// <nil> <nil>
	// <nil>
	// 201
	// 202
	// Bound TEST_PCI 1
	// completed
}

// A simulator that is started again continues where it stopped.
func ExampleServer_Prepare() {
	first, err := fakecyborg.New(fakecyborg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Close()
	_, err = first.CreateDeviceProfile("gpu", []map[string]string{{"resources:PGPU": "1"}})
	fmt.Println(err)
	var records []sim.Record
	for record, err := range first.Records() {
		if err != nil {
			fmt.Println(err)
		}
		records = append(records, record)
	}

	second, err := fakecyborg.New(fakecyborg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Close()
	fmt.Println(sim.Replace(context.Background(), second, records))
	second.Resume()
	for _, profile := range second.DeviceProfiles() {
		fmt.Println(profile.Name, profile.Groups)
	}
	fmt.Println(errors.Is(sim.Replace(context.Background(), second, records[:1]), sim.ErrRecords))
	// Output:
	// <nil>
	// <nil>
	// gpu [map[resources:PGPU:1]]
	// true
}
