package placementsim_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
)

// client is gophercloud's client for a Placement in process.
func client(t *testing.T, server *placementsim.Server) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewPlacementV1(server.Provider(), gophercloud.EndpointOpts{})
	must(t, err)
	client.Microversion = "1.39"
	return client
}

func TestRunServesClientsInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet(placementsim.Operations()...)
		server := placementsim.Run(t, placementsim.WithFaults(faults), placementsim.Config{Seed: 1})
		must(t, faults.Set(fault.Rule{Operation: fault.ResourceProviderCreate, Action: fault.Delay, Delay: time.Hour}))
		began := time.Now()
		created, err := resourceproviders.Create(t.Context(), client(t, server), resourceproviders.CreateOpts{Name: "cn0"}).Extract()
		must(t, err)
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("the request took %s, want the hour of the fault", waited)
		}
		if list := server.ResourceProviders(); len(list) != 1 || list[0].UUID != created.UUID {
			t.Errorf("got %v, want %s", list, created.UUID)
		}
	})
}

// TestATraitThatDoesNotExistIsRefused is the test that docs/test-your-agent.md shows: a mock passes
// the code that it fails.
func TestATraitThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	err := addGPU(t.Context(), placementsim.Run(t).Provider())
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("got %v, want the status 400", err)
	}
}

func TestURLIsServedUntilTheTestEnds(t *testing.T) {
	t.Parallel()
	var url string
	var server *placementsim.Server
	t.Run("served", func(t *testing.T) {
		server = placementsim.Run(t)
		url = server.URL(t)
		onSocket := client(t, server)
		onSocket.ProviderClient = &gophercloud.ProviderClient{TokenID: "admin"}
		onSocket.Endpoint = url + "/"
		_, err := resourceproviders.Create(t.Context(), onSocket, resourceproviders.CreateOpts{Name: "cn0"}).Extract()
		must(t, err)
		if list := server.ResourceProviders(); len(list) != 1 || list[0].Name != "cn0" {
			t.Errorf("got %v, want cn0", list)
		}
	})
	resp, err := http.Get(url)
	if err == nil {
		resp.Body.Close()
		t.Errorf("%s is served after its test, with status %d", url, resp.StatusCode)
	}
}
