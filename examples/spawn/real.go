package main

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// realCloud is a cloud of clouds.yaml. Nova sends its events to its own agents and not
// to this program, so the flow polls.
type realCloud struct{ opts options }

func (c *realCloud) title() string { return "cloud " + c.opts.OSCloud }

func (c *realCloud) flow(ctx context.Context, spawnConfig spawn.Config) (*spawn.Flow, *cyborgclient.Client, error) {
	provider, endpoint, err := authenticate(ctx, c.opts.OSCloud)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --os-cloud %s: %w", errUsage, c.opts.OSCloud, err)
	}
	clientOpts := []cyborgclient.Option{cyborgclient.WithEndpointOpts(endpoint)}
	if c.opts.ServiceCloud != "" {
		service, _, err := authenticate(ctx, c.opts.ServiceCloud)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: --service-cloud %s: %w", errUsage, c.opts.ServiceCloud, err)
		}
		clientOpts = append(clientOpts, cyborgclient.WithServiceToken(func(context.Context) (string, error) {
			return service.Token(), nil
		}))
	}
	cyborg, err := cyborgclient.New(provider, clientOpts...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --os-cloud %s: %w", errUsage, c.opts.OSCloud, err)
	}
	placement, err := openstack.NewPlacementV1(provider, endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --os-cloud %s: %w", errUsage, c.opts.OSCloud, err)
	}
	flow, err := spawn.New(spawnConfig, cyborg, placement, nil)
	return flow, cyborg, err
}

func authenticate(ctx context.Context, cloud string) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(cloud))
	if err != nil {
		return nil, endpoint, err
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	return provider, endpoint, err
}

func (c *realCloud) instance() string                         { return c.opts.Instance }
func (c *realCloud) flavor(profile string) requestspec.Flavor { return plainFlavor(profile) }
func (c *realCloud) running() bool                            { return true }
func (c *realCloud) close() error                             { return nil }

func (c *realCloud) hint(*spawn.NoCandidatesError) string {
	return "list the providers with openstack resource provider list"
}

// define does nothing: the server of a real cloud exists already.
func (c *realCloud) define(context.Context, *spawn.Result) error { return nil }

func (c *realCloud) conversation(trace []spawn.StepTrace) []call { return callsOf(trace) }
