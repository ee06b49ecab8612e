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

// addGPU is the code under test. It creates a resource provider and gives it a trait, which it
// forgets to create first.
func addGPU(ctx context.Context, provider *gophercloud.ProviderClient) error {
	client, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return err
	}
	client.Microversion = "1.39"
	gpu, err := resourceproviders.Create(ctx, client, resourceproviders.CreateOpts{Name: "cn0_gpu0"}).Extract()
	if err != nil {
		return err
	}
	return resourceproviders.UpdateTraits(ctx, client, gpu.UUID, resourceproviders.UpdateTraitsOpts{
		ResourceProviderGeneration: gpu.Generation, Traits: []string{"CUSTOM_FAST_GPU"},
	}).Err
}

// mock is what a test has instead of Placement: an answer 200 to each request.
func mock(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, `{"uuid": "4e5b1dc2-0ba0-4c44-9cd0-9e3a2b6a3e5a", "traits": ["CUSTOM_FAST_GPU"]}`)
}

// The same code passes with a mock and fails with Placement, which refuses a trait that does not
// exist. In a test the second client is placementsim.Run(t).Provider().
func Example() {
	ctx := context.Background()

	socket := httptest.NewServer(http.HandlerFunc(mock))
	defer socket.Close()
	mocked := &gophercloud.ProviderClient{EndpointLocator: func(gophercloud.EndpointOpts) (string, error) {
		return socket.URL + "/", nil
	}}
	fmt.Println("mock:", addGPU(ctx, mocked))

	server, err := placementsim.New(placementsim.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("placementsim:", addGPU(ctx, server.Provider()))
	// Output:
	// mock: <nil>
	// placementsim: Expected HTTP response code [200] when accessing [PUT http://placement.invalid/resource_providers/93cc0cfe-d238-4866-b26c-cd884028c3ad/traits], but got 400 instead: {"errors":[{"status":400,"title":"Bad Request","detail":"The server could not comply with the request since it is either malformed or otherwise incorrect.\n\n No such trait CUSTOM_FAST_GPU  ","code":"placement.undefined_code","request_id":"req-447ec21e-3ffa-46a2-98ac-fe78b87a8b18"}]}
}
