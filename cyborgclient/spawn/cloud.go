package spawn

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/internal/session"
)

// cloudOpts are the options of flows that make their own clients.
type cloudOpts struct {
	serviceCloud string
	service      *gophercloud.ProviderClient
	region       string
	availability gophercloud.Availability
}

// WithServiceCloud names the cloud of clouds.yaml whose token is the X-Service-Token of
// requests to Cyborg. Its user needs the role service; it may be the cloud of the flow.
// It is for NewFromCloud.
func WithServiceCloud(cloud string) Option { return func(f *Flow) { f.cloud.serviceCloud = cloud } }

// WithServiceProvider is [cyborgclient.WithServiceProvider] for the client that
// NewFromCloud and NewFromProvider make.
func WithServiceProvider(service *gophercloud.ProviderClient) Option {
	return func(f *Flow) { f.cloud.service = service }
}

// WithEndpointOpts selects the region and the interface (Availability) of the services
// in the catalog. It is for NewFromProvider; NewFromCloud has those of clouds.yaml.
func WithEndpointOpts(opts gophercloud.EndpointOpts) Option {
	return func(f *Flow) { f.cloud.region, f.cloud.availability = opts.Region, opts.Availability }
}

// NewFromCloud logs in to the named cloud of clouds.yaml, as [cyborgclient.NewFromCloud]
// does, and returns a flow with clients of its Cyborg and Placement. Tokens are renewed,
// answers are bounded, and no redirect leads to another server. Cyborg of 2026 and later
// binds only with a service token: see WithServiceCloud. An error of the options and of
// clouds.yaml matches ErrConfig.
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
	f.cloud = cloudOpts{service: f.cloud.service, region: endpoint.Region, availability: endpoint.Availability}
	return f.connect(provider)
}

// NewFromProvider returns a flow with clients of the Cyborg and the Placement in the
// catalog of an authenticated provider, which should be able to reauthenticate. The
// provider is not changed. The error matches ErrConfig.
func NewFromProvider(provider *gophercloud.ProviderClient, opts ...Option) (*Flow, error) {
	return newFlow(opts).connect(provider)
}

// Cyborg returns the flow's client of Cyborg.
func (f *Flow) Cyborg() *cyborgclient.Client { return f.cyborg }

// logIn logs in to a cloud, which an error calls what.
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

// connect makes the clients.
func (f *Flow) connect(provider *gophercloud.ProviderClient) (*Flow, error) {
	if f.cloud.serviceCloud != "" {
		return nil, fmt.Errorf("%w: WithServiceCloud is for NewFromCloud", ErrConfig)
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
	placement, err := session.Locate(provider, "placement", endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: find the placement endpoint in the catalog: %w", ErrConfig, err)
	}
	f.cloud, f.endpoint = cloudOpts{}, endpoint
	return f.start(cyborg, placement)
}
