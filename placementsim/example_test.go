package placementsim_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/placementsim"
)

func Example_wire() {
	server, err := placementsim.New(placementsim.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	host, err := server.CreateProvider(placementsim.ResourceProvider{
		UUID: "4e5b1dc2-0ba0-4c44-9cd0-9e3a2b6a3e5a", Name: "cn0",
		Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	socket := httptest.NewServer(server)
	defer socket.Close()
	req, err := http.NewRequest("GET", socket.URL+"/allocation_candidates?resources=VCPU:2", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.12")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)

	err = server.Claim(placementsim.Claim{
		Consumer: "0c1d9b6e-7f0c-4b52-8f42-4c9b8b1a7a10", Project: "p", User: "u",
		Allocations: []placementsim.Allocation{{Provider: host.UUID, Class: "VCPU", Used: 2}},
	})
	fmt.Println(server.Usage(host.UUID, "VCPU"), err)
	// Output:
	// {"allocation_requests": [{"allocations": {"4e5b1dc2-0ba0-4c44-9cd0-9e3a2b6a3e5a": {"resources": {"VCPU": 2}}}}], "provider_summaries": {"4e5b1dc2-0ba0-4c44-9cd0-9e3a2b6a3e5a": {"resources": {"VCPU": {"capacity": 8, "used": 0}}}}} <nil>
	// 2 <nil>
}

func ExampleServer_Provider() {
	server, err := placementsim.New(placementsim.Config{Seed: 1}) // in a test: placementsim.Run(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := openstack.NewPlacementV1(server.Provider(), gophercloud.EndpointOpts{})
	if err != nil {
		fmt.Println(err)
		return
	}
	client.Microversion = "1.39"
	created, err := resourceproviders.Create(context.Background(), client, resourceproviders.CreateOpts{Name: "cn0"}).Extract()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(created.Name, created.Generation)
	// Output: cn0 0
}
