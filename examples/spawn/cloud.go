package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// cloud is an embedded or a real cloud, with a flow against it.
type cloud struct {
	title  string
	flow   *spawn.Flow
	cyborg *cyborgclient.Client // of the flow
	sim    *simcloud.Cloud      // nil: a real cloud
}

func openCloud(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	if opts.OSCloud != "" {
		return openReal(ctx, opts, config)
	}
	return openEmbedded(ctx, opts, config)
}

// openEmbedded starts a simulated cloud inside the process.
func openEmbedded(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	model := simcloud.DefaultModel()
	if opts.Sysfs != "" {
		model = simcloud.Model{Hosts: []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Dir: opts.Sysfs}}}}
	}
	model.Seed = opts.Seed
	simulated, err := simcloud.New(ctx, model)
	if err != nil {
		return nil, fmt.Errorf("embedded cloud: %w", err)
	}
	provider, err := simulated.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := simulated.ProviderClient(ctx, "nova")
	if err != nil {
		return nil, err
	}
	events := externalevent.NewRegistry()
	simulated.HandleEvents(events.Handler())
	c := &cloud{sim: simulated, title: "Embedded cloud, hosts " + strings.Join(simulated.HostNames(), ", ")}
	return c, c.connect(config, provider, gophercloud.EndpointOpts{}, service, events)
}

// openReal logs in to a cloud of clouds.yaml. Nova sends its events to its own agents and
// not to this program, so the flow polls.
func openReal(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	provider, endpoint, err := logIn(ctx, "--os-cloud", opts.OSCloud)
	if err != nil {
		return nil, err
	}
	var service *gophercloud.ProviderClient
	if opts.ServiceCloud != "" {
		if service, _, err = logIn(ctx, "--service-cloud", opts.ServiceCloud); err != nil {
			return nil, err
		}
	}
	c := &cloud{title: "Cloud " + opts.OSCloud}
	return c, c.connect(config, provider, endpoint, service, nil)
}

// logIn logs in to the cloud that the flag names.
func logIn(ctx context.Context, flag, cloud string) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(cloud))
	if err != nil {
		return nil, endpoint, fmt.Errorf("%s %s: %w", flag, cloud, err)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, endpoint, fmt.Errorf("%s %s: %w", flag, cloud, err)
	}
	return provider, endpoint, nil
}

// connect makes the clients and the flow. Without a service token Cyborg refuses to bind.
func (c *cloud) connect(config spawn.Config, provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts,
	service *gophercloud.ProviderClient, events *externalevent.Registry,
) (err error) {
	clientOpts := []cyborgclient.Option{cyborgclient.WithEndpointOpts(endpoint)}
	if service != nil {
		clientOpts = append(clientOpts, cyborgclient.WithServiceProvider(service))
	}
	if c.cyborg, err = cyborgclient.New(provider, clientOpts...); err != nil {
		return err
	}
	placement, err := openstack.NewPlacementV1(provider, endpoint)
	if err != nil {
		return err
	}
	c.flow, err = spawn.New(c.cyborg, placement, spawn.WithConfig(config), spawn.WithEvents(events))
	return err
}

// flavor returns the model's flavor that names the profile, or makes one.
func (c *cloud) flavor(profile string) requestspec.Flavor {
	if c.sim != nil {
		for _, flavor := range c.sim.Model().Flavors {
			if flavor.ExtraSpecs[requestspec.DeviceProfileKey] == profile {
				return requestspec.Flavor(flavor)
			}
		}
	}
	return requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}
}

func (c *cloud) close() error {
	if c.sim == nil {
		return nil
	}
	return c.sim.Close()
}
