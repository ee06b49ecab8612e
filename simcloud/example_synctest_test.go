package simcloud_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// docs/test-your-agent.md quotes this test.

func TestAWholeCloudInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		model := simcloud.DefaultModel()
		model.TokenLifetime = time.Hour
		model.Cyborg = fakecyborg.Config{AsyncBind: true, BindDelay: 30 * time.Second}
		cloud, err := simcloud.New(t.Context(), model, simcloud.WithAgentLoop())
		check(err)
		defer func() { check(cloud.Close()) }() // ends the agents, and so the bubble

		// gophercloud logs in again when its token has expired.
		provider := cloud.Provider(t)
		cyborg := &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: cloud.URL() + "/accelerator/v2/"}
		devices := func() int {
			var body struct{ Devices []any }
			_, err := cyborg.Get(t.Context(), cyborg.ServiceURL("devices"), &body, nil)
			check(err)
			return len(body.Devices)
		}
		token, before := provider.Token(), devices()
		time.Sleep(time.Hour + time.Second)
		if devices(); provider.Token() == token {
			t.Error("the token outlived its hour")
		}

		// go-retryablehttp waits 1, 2 and 4 seconds when it is refused three times.
		check(cloud.Faults().Set(fault.Rule{Operation: fault.AcceleratorRootGet, Action: fault.Status, Status: 503, Times: 3}))
		patient := retryablehttp.NewClient()
		patient.HTTPClient, patient.Logger = &http.Client{Transport: cloud.Transport()}, nil
		began := time.Now()
		answer, err := patient.Get(cloud.URL() + "/accelerator/")
		check(err)
		check(answer.Body.Close())
		if waited := time.Since(began); waited != 7*time.Second {
			t.Errorf("it waited %s", waited)
		}

		// A bind takes Cyborg half a minute.
		var created struct{ ARQs []struct{ UUID string } }
		_, err = cyborg.Post(t.Context(), cyborg.ServiceURL("accelerator_requests"), map[string]string{"device_profile_name": "gpu"}, &created, nil)
		check(err)
		gpu := cloud.Cyborg.Deployables()[1]
		patches := []map[string]string{}
		for path, value := range map[string]string{
			"/hostname": gpu.Hostname, "/device_rp_uuid": gpu.ProviderUUID, "/instance_uuid": "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001",
		} {
			patches = append(patches, map[string]string{"op": "add", "path": path, "value": value})
		}
		service, err := cloud.ServiceToken(t.Context())
		check(err)
		_, err = cyborg.Patch(t.Context(), cyborg.ServiceURL("accelerator_requests"), map[string]any{created.ARQs[0].UUID: patches}, nil,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}, MoreHeaders: map[string]string{"X-Service-Token": service}})
		check(err)
		for _, want := range []fakecyborg.State{fakecyborg.StateBindStarted, fakecyborg.StateBound} {
			if got := cloud.Cyborg.ARQs()[0].State; got != want {
				t.Errorf("the request is %s, want %s", got, want)
			}
			time.Sleep(31 * time.Second)
		}

		// The agents look at their hardware every minute.
		check(cloud.Faults().Set(fault.Rule{Operation: fault.DeviceFind, Subject: "cn1_0000:3b:00.0", Action: fault.Drop, Times: -1}))
		time.Sleep(time.Minute)
		synctest.Wait()
		if after := devices(); after != before-1 {
			t.Errorf("%d devices before one vanished, %d after", before, after)
		}
	})
}
