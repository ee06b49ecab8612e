package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// attachPlain is the program with the requests of the API references. It checks every
// answer. After a failure it undoes what it has done, the last first.
func attachPlain(ctx context.Context, admin, service *gophercloud.ProviderClient, cloud *simcloud.Cloud) (err error) {
	placement, err := openstack.NewPlacementV1(admin, gophercloud.EndpointOpts{})
	if err != nil {
		return err
	}
	placement.Microversion = "1.38"
	url, err := admin.EndpointLocator(gophercloud.EndpointOpts{Type: "accelerator", Availability: gophercloud.AvailabilityPublic})
	if err != nil {
		return err
	}
	cyborg := &gophercloud.ServiceClient{ProviderClient: admin, Endpoint: url}
	asService := &gophercloud.RequestOpts{MoreHeaders: map[string]string{"X-Service-Token": service.Token()}, OkCodes: []int{202, 204}}

	var undo []func(context.Context) error
	defer func() {
		if err == nil {
			return
		}
		ctx := context.WithoutCancel(ctx)
		for _, step := range slices.Backward(undo) {
			err = errors.Join(err, step(ctx))
		}
	}()

	var candidates struct {
		Requests []struct {
			Allocations any                 `json:"allocations"`
			Mappings    map[string][]string `json:"mappings"`
		} `json:"allocation_requests"`
		Providers map[string]struct {
			Root string `json:"root_provider_uuid"`
		} `json:"provider_summaries"`
	}
	query := placement.ServiceURL("allocation_candidates") + "?limit=1000&resources=VCPU:4,MEMORY_MB:8192,DISK_GB:20&resources_gpu=PGPU:1"
	if _, err := placement.Get(ctx, query, &candidates, nil); err != nil {
		return err
	}
	if len(candidates.Requests) == 0 {
		return errors.New("no host has a free GPU")
	}
	chosen := candidates.Requests[0]
	gpu := chosen.Mappings["_gpu"][0]
	var host struct{ Name string }
	if _, err := placement.Get(ctx, placement.ServiceURL("resource_providers", candidates.Providers[gpu].Root), &host, nil); err != nil {
		return err
	}

	login := admin.GetAuthResult().(tokens.CreateResult)
	project, err := login.ExtractProject()
	if err != nil {
		return err
	}
	user, err := login.ExtractUser()
	if err != nil {
		return err
	}
	allocation := placement.ServiceURL("allocations", instance)
	claim := map[string]any{
		"allocations": chosen.Allocations, "mappings": chosen.Mappings, "consumer_generation": nil, "consumer_type": "INSTANCE",
		"project_id": project.ID, "user_id": user.ID,
	}
	if _, err := placement.Put(ctx, allocation, claim, nil, &gophercloud.RequestOpts{OkCodes: []int{204}}); err != nil {
		return err
	}
	// Not before: after a refused claim the allocation may be another client's.
	undo = append(undo, func(ctx context.Context) error {
		_, err := placement.Delete(ctx, allocation, nil)
		return err
	})

	var created struct {
		ARQs []struct{ UUID string } `json:"arqs"`
	}
	if _, err := cyborg.Post(ctx, cyborg.ServiceURL("accelerator_requests"), map[string]any{"device_profile_name": "gpu"}, &created, nil); err != nil {
		return err
	}
	bindings := make(map[string]any)
	var uuids []string
	for _, arq := range created.ARQs {
		uuids = append(uuids, arq.UUID)
		bindings[arq.UUID] = []map[string]string{
			{"op": "add", "path": "/hostname", "value": host.Name},
			{"op": "add", "path": "/device_rp_uuid", "value": gpu},
			{"op": "add", "path": "/instance_uuid", "value": instance},
		}
	}
	undo = append(undo, func(ctx context.Context) error {
		_, err := cyborg.Delete(ctx, cyborg.ServiceURL("accelerator_requests")+"?arqs="+strings.Join(uuids, ","), asService)
		return err
	})

	if _, err := cyborg.Patch(ctx, cyborg.ServiceURL("accelerator_requests"), bindings, nil, asService); err != nil {
		return err
	}
	var bound struct {
		ARQs []struct {
			UUID, State string
			PCI         struct{ Domain, Bus, Device, Function string } `json:"attach_handle_info"`
		} `json:"arqs"`
	}
	if _, err := cyborg.Get(ctx, cyborg.ServiceURL("accelerator_requests")+"?instance="+instance, &bound, nil); err != nil {
		return err
	}
	devices := ""
	for _, arq := range bound.ARQs {
		if arq.State != "Bound" {
			return fmt.Errorf("ARQ %s is %s", arq.UUID, arq.State)
		}
		devices += fmt.Sprintf(hostdev, arq.PCI.Domain, arq.PCI.Bus, arq.PCI.Device, arq.PCI.Function)
	}
	return cloud.DefineGuest(sim.Guest{UUID: instance, Host: host.Name, Domain: "<domain><devices>" + devices + "</devices></domain>"})
}

// hostdev is a PCI device of a libvirt domain.
const hostdev = "<hostdev mode='subsystem' type='pci' managed='yes'><source>" +
	"<address domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/></source></hostdev>"
