package spawn

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/internal/session"
)

// cloudOpts are the options of flows that create their own clients.
type cloudOpts struct {
	serviceCloud, placementCloud string
	service, placement           *gophercloud.ProviderClient // nil: no service token, and Cyborg's user
	region                       string
	availability                 gophercloud.Availability
}

// WithServiceCloud names the cloud in clouds.yaml whose token is sent to Cyborg as X-Service-Token. Its user needs
// the role service; it may be the cloud of the flow. Use it with NewFromCloud.
func WithServiceCloud(cloud string) Option { return func(f *Flow) { f.cloud.serviceCloud = cloud } }

// WithServiceProvider is [cyborgclient.WithServiceProvider] for the client that NewFromCloud and NewFromProvider
// create.
func WithServiceProvider(service *gophercloud.ProviderClient) Option {
	return func(f *Flow) { f.cloud.service = service }
}

// WithPlacementCloud names the cloud in clouds.yaml whose user calls Placement, as Nova calls Placement with a user
// of its own. By default Placement gets the same token as Cyborg. Placement requires the role admin or service. Use
// it with NewFromCloud.
func WithPlacementCloud(cloud string) Option {
	return func(f *Flow) { f.cloud.placementCloud = cloud }
}

// WithPlacementProvider is WithPlacementCloud for NewFromProvider: the Placement endpoint is taken from the catalog
// of this provider, and its tokens are used.
func WithPlacementProvider(placement *gophercloud.ProviderClient) Option {
	return func(f *Flow) { f.cloud.placement = placement }
}

// WithEndpointOpts selects the region and the interface (Availability) of the services in the catalog. Use it with
// NewFromProvider; NewFromCloud reads them from clouds.yaml.
func WithEndpointOpts(opts gophercloud.EndpointOpts) Option {
	return func(f *Flow) { f.cloud.region, f.cloud.availability = opts.Region, opts.Availability }
}

// NewFromCloud logs in to the named cloud of clouds.yaml, as [cyborgclient.NewFromCloud] does, and returns a flow
// with clients of its Cyborg and Placement. Tokens are renewed, the size of responses is limited, and redirects to
// another server are not followed. Cyborg of 2026 and later binds only with a service token: see WithServiceCloud.
// The error matches ErrConfig if the options or clouds.yaml are invalid.
func NewFromCloud(ctx context.Context, cloud string, opts ...Option) (*Flow, error) {
	f := newFlow(opts)
	provider, endpoint, err := logIn(ctx, "cloud", cloud)
	if err != nil {
		return nil, err
	}
	if name := f.cloud.serviceCloud; name != "" {
		if f.cloud.service, _, err = logIn(ctx, "service cloud", name); err != nil {
			return nil, err
		}
	}
	if name := f.cloud.placementCloud; name != "" {
		if f.cloud.placement, _, err = logIn(ctx, "placement cloud", name); err != nil {
			return nil, err
		}
	}
	f.cloud = cloudOpts{service: f.cloud.service, placement: f.cloud.placement, region: endpoint.Region, availability: endpoint.Availability}
	return f.connect(provider)
}

// NewFromProvider returns a flow with clients of the Cyborg and the Placement in the catalog of an authenticated
// provider, which should be able to reauthenticate. The provider is not changed. The error matches ErrConfig.
func NewFromProvider(provider *gophercloud.ProviderClient, opts ...Option) (*Flow, error) {
	return newFlow(opts).connect(provider)
}

// Cyborg returns the client of Cyborg: the flow's own, or the one given to [Flow.As].
func (f *Flow) Cyborg() *cyborgclient.Client { return f.cyborg.Client }

// logIn logs in to a cloud. Errors call the cloud what.
func logIn(ctx context.Context, what, name string) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	cloud, err := session.ReadCloud(name)
	if err != nil {
		return nil, cloud.Endpoint, fmt.Errorf("%w: %s: %w", ErrConfig, what, err)
	}
	provider, err := cloud.LogIn(ctx, nil)
	if err != nil {
		err = fmt.Errorf("spawn: %s %q: %w", what, name, err)
	}
	return provider, cloud.Endpoint, err
}

// connect creates the clients.
func (f *Flow) connect(provider *gophercloud.ProviderClient) (*Flow, error) {
	if f.cloud.serviceCloud+f.cloud.placementCloud != "" {
		return nil, fmt.Errorf("%w: WithServiceCloud and WithPlacementCloud are for NewFromCloud", ErrConfig)
	}
	endpoint := gophercloud.EndpointOpts{Region: f.cloud.region, Availability: f.cloud.availability}
	opts := []cyborgclient.Option{cyborgclient.WithEndpointOpts(endpoint)}
	if f.cloud.service != nil {
		opts = append(opts, cyborgclient.WithServiceProvider(f.cloud.service))
	}
	cyborg, err := cyborgclient.New(provider, opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if f.cloud.placement != nil {
		provider = f.cloud.placement
	}
	placement, err := session.Locate(provider, "placement", endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: find the placement endpoint in the catalog: %w", ErrConfig, err)
	}
	f.cloud, f.endpoint = cloudOpts{}, endpoint
	return f.start(cyborg, placement)
}
