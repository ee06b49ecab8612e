package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// answerTimeout limits the time of one request.
const answerTimeout = time.Minute

// errWrites is the refusal of a request that could change the cloud.
var errWrites = errors.New("import sends only GET, and POST to Keystone for a token")

// readOnly is a transport that changes nothing.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	login := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/auth/tokens")
	if r.Method != http.MethodGet && !login {
		return nil, fmt.Errorf("%w: %s %s", errWrites, r.Method, r.URL.Path)
	}
	return t.next.RoundTrip(r)
}

// sameHost is the redirect policy: no token is sent to another host.
func sameHost(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; len(via) >= 10 || r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// cloud is a real cloud.
type cloud struct {
	region    string
	placement *placementReader
	cyborg    *cyborgclient.Client // nil: the cloud has none
	progress  func(format string, args ...any)
}

// openCloud logs in to a cloud of clouds.yaml, or, with neither a name nor OS_CLOUD, to
// the one of the variables OS_AUTH_URL, OS_USERNAME and so on.
func openCloud(ctx context.Context, name string, progress func(string, ...any)) (*cloud, error) {
	auth, endpoint, transport, err := credentials(name)
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("log in: %w", err))
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(http.Client{
		Transport: readOnly{transport}, CheckRedirect: sameHost, Timeout: answerTimeout,
	}))
	if err != nil {
		return nil, fmt.Errorf("log in at %s: %w", auth.IdentityEndpoint, err)
	}
	service, err := openstack.NewPlacementV1(provider, endpoint)
	if err != nil {
		return nil, fmt.Errorf("placement: find its endpoint: %w", err)
	}
	c := &cloud{region: endpoint.Region, progress: progress, placement: &placementReader{service: service, progress: progress, pause: retryPause}}
	c.cyborg, err = cyborgclient.New(provider, cyborgclient.WithEndpointOpts(endpoint))
	if err != nil && !errors.As(err, new(*gophercloud.ErrEndpointNotFound)) && !errors.As(err, new(gophercloud.ErrEndpointNotFound)) {
		return nil, fmt.Errorf("accelerator: %w", err)
	}
	return c, nil
}

// credentials reads how to log in, and how to reach the cloud.
func credentials(name string) (gophercloud.AuthOptions, gophercloud.EndpointOpts, http.RoundTripper, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cmp.Or(name, os.Getenv("OS_CLOUD")) == "" && os.Getenv("OS_AUTH_URL") != "" {
		auth, err := openstack.AuthOptionsFromEnv()
		availability := strings.TrimSuffix(cmp.Or(os.Getenv("OS_INTERFACE"), "public"), "URL") // internalURL is an older form
		return auth, gophercloud.EndpointOpts{Region: os.Getenv("OS_REGION_NAME"), Availability: gophercloud.Availability(availability)}, transport, err
	}
	var opts []clouds.ParseOption
	if name != "" {
		opts = append(opts, clouds.WithCloudName(name))
	}
	auth, endpoint, tls, err := clouds.Parse(opts...)
	transport.TLSClientConfig = tls
	return auth, endpoint, transport, err
}

// read lists everything.
func (c *cloud) read(ctx context.Context) (transfer.Listing, error) {
	l := transfer.Listing{SchemaVersion: transfer.ListingSchema, ReadAt: time.Now().UTC().Truncate(time.Second), Region: c.region}
	var err error
	if c.cyborg == nil {
		c.progress("accelerator: not in the catalog; only Placement is read")
	} else if l.Accelerator, err = c.accelerator(ctx); err != nil {
		return l, fmt.Errorf("accelerator: %w", err)
	}
	if l.Placement, err = c.placement.read(ctx); err != nil {
		return l, fmt.Errorf("placement: %w", err)
	}
	return l, nil
}
