package simcloud_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A program makes a cloud, uses it in process or serves it, and closes it. A test calls
// simcloud.Run(t) instead.
func ExampleNew() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	for _, host := range cloud.HostNames() {
		fmt.Println(host)
	}
	for _, d := range cloud.Cyborg.Deployables()[:3] {
		fmt.Println(d.Name, d.ResourceClass(), d.NumAccelerators)
	}
	fmt.Println(len(cloud.Leaks()), "leaks")
	// Output:
	// cn0
	// cn1
	// cn0_FakeDevice FPGA 16
	// cn0_0000:3b:00.0 PGPU 1
	// cn0_0000:5e:00.0 PGPU 1
	// 0 leaks
}

// An authenticated client knows the catalog and reaches the cloud without a socket.
func ExampleCloud_ProviderClient() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	provider, err := cloud.ProviderClient(ctx, "demo")
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := provider.Request(ctx, http.MethodGet, cloud.URL()+"/accelerator/v2/device_profiles?name=gpu", requestOK())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	fmt.Println(res.StatusCode, res.Header.Get("OpenStack-API-Version"))
	// Output: 200 accelerator 2.0
}

// A model can be as small as one host with one verbatim device, and is JSON.
func ExampleParseModel() {
	_, err := simcloud.ParseModel([]byte(`{"hosts": [{"name": "cn0", "sysfs": {"devices": [{"adress": "0000:3b:00.0"}]}}]}`))
	fmt.Println(err != nil)
	m, err := simcloud.ParseModel([]byte(`{
		"seed": 7,
		"hosts": [{"name": "cn0", "sysfs": {"devices": [
			{"address": "0000:3b:00.0", "vendor": "10de", "product": "15f8", "class": "0302"}
		]}}]
	}`))
	fmt.Println(err, m.Hosts[0].Name, m.Hosts[0].Sysfs.Devices[0].Address)
	// Output:
	// true
	// <nil> cn0 0000:3b:00.0
}

// Fault rules make the cloud fail in the same way in every run.
func ExampleCloud_Faults() {
	cloud, err := simcloud.New(context.Background(), simcloud.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	err = cloud.Faults().Set(fault.Rule{
		Operation: fault.ARQBind,
		When:      fault.After,
		Action:    fault.Drop, // bound, but the caller never hears of it
	})
	fmt.Println(err, len(cloud.Faults().Rules()))
	// Output: <nil> 1
}

// A state is the whole cloud as text. It is taken, compared with a later one, and loaded again.
func ExampleCloud_Dump() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	before, err := cloud.Dump()
	if err != nil {
		fmt.Println(err)
		return
	}
	guest := sim.Guest{UUID: "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", Host: "cn0"}
	if err := cloud.DefineGuest(guest); err != nil {
		fmt.Println(err)
		return
	}
	after, err := cloud.Dump()
	if err != nil {
		fmt.Println(err)
		return
	}
	differences, err := before.Diff(after)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, difference := range differences {
		fmt.Println(difference)
	}
	fmt.Println(len(cloud.Guests()), cloud.Load(before), len(cloud.Guests()))
	// Output:
	// + compute.guests[2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001]: {"domain":"","host":"cn0","uuid":"2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"}
	// 1 <nil> 0
}
