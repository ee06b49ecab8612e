package placementsim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
)

// client is gophercloud's client for a Placement in process.
func client(server *placementsim.Server) *gophercloud.ServiceClient {
	provider := &gophercloud.ProviderClient{HTTPClient: *server.Client()}
	return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: placementsim.URL + "/", Type: "placement", Microversion: "1.39"}
}

func TestRunServesClientsInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet(placementsim.Operations()...)
		server := placementsim.Run(t, placementsim.Config{Seed: 1}, placementsim.WithFaults(faults))
		if err := faults.Set(fault.Rule{Operation: fault.ResourceProviderCreate, Action: fault.Delay, Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		created, err := resourceproviders.Create(t.Context(), client(server), resourceproviders.CreateOpts{Name: "cn0"}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("the request took %s, want the hour of the fault", waited)
		}
		if list := server.ResourceProviders(); len(list) != 1 || list[0].UUID != created.UUID {
			t.Errorf("got %v, want %s", list, created.UUID)
		}
	})
}
