package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// errWrites is the refusal of a request that is more than a look.
var errWrites = errors.New("import sends nothing but GET, and POST to Keystone for a token")

// readOnly is the way to a cloud that nothing can be changed on.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	login := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/auth/tokens")
	if r.Method != http.MethodGet && !login {
		return nil, fmt.Errorf("%w: %s %s", errWrites, r.Method, r.URL.Path)
	}
	return t.next.RoundTrip(r)
}

// source is a cloud that is read.
type source struct {
	region    string
	placement *placementReader
	cyborg    *cyborgclient.Client // nil: the cloud has none
	note      func(format string, args ...any)
}

// openSource logs in to a cloud of clouds.yaml, or, with neither a name nor OS_CLOUD, to
// the one of the variables OS_AUTH_URL, OS_USERNAME and so on.
func openSource(ctx context.Context, name string, note func(string, ...any)) (*source, error) {
	auth, endpoint, transport, err := credentialsOf(name)
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("log in: %w", err))
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(http.Client{Transport: readOnly{transport}, Timeout: answerTimeout}))
	if err != nil {
		return nil, fmt.Errorf("log in at %s: %w", auth.IdentityEndpoint, err)
	}
	return newSource(provider, endpoint, note)
}

// credentialsOf reads how to log in, and how to reach the cloud.
func credentialsOf(name string) (gophercloud.AuthOptions, gophercloud.EndpointOpts, http.RoundTripper, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cmp.Or(name, os.Getenv("OS_CLOUD")) == "" && os.Getenv("OS_AUTH_URL") != "" {
		auth, err := openstack.AuthOptionsFromEnv()
		return auth, gophercloud.EndpointOpts{
			Region: os.Getenv("OS_REGION_NAME"), Availability: availability(os.Getenv("OS_INTERFACE")),
		}, transport, err
	}
	var opts []clouds.ParseOption
	if name != "" {
		opts = append(opts, clouds.WithCloudName(name))
	}
	auth, endpoint, tls, err := clouds.Parse(opts...)
	transport.TLSClientConfig = tls
	return auth, endpoint, transport, err
}

// availability understands OS_INTERFACE, also in its older form publicURL.
func availability(name string) gophercloud.Availability {
	switch name = strings.TrimSuffix(name, "URL"); gophercloud.Availability(name) {
	case gophercloud.AvailabilityAdmin, gophercloud.AvailabilityInternal:
		return gophercloud.Availability(name)
	}
	return gophercloud.AvailabilityPublic
}

// newSource finds the services in the catalog.
func newSource(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts, note func(string, ...any)) (*source, error) {
	s := &source{region: endpoint.Region, note: note}
	service, err := openstack.NewPlacementV1(provider, endpoint)
	if err != nil {
		return nil, fmt.Errorf("placement: find its endpoint: %w", err)
	}
	s.placement = &placementReader{service: service, note: note, pause: retryPause}
	s.cyborg, err = cyborgclient.New(provider, cyborgclient.WithRegion(endpoint.Region), cyborgclient.WithAvailability(endpoint.Availability))
	if err != nil && !isMissing(err) {
		return nil, fmt.Errorf("accelerator: %w", err)
	}
	return s, nil
}

// isMissing tells a cloud without the service from other trouble.
func isMissing(err error) bool {
	var missing *gophercloud.ErrEndpointNotFound
	var value gophercloud.ErrEndpointNotFound
	return errors.As(err, &missing) || errors.As(err, &value)
}

// read lists everything.
func (s *source) read(ctx context.Context) (transfer.Listing, error) {
	l := transfer.Listing{SchemaVersion: transfer.ListingSchema, ReadAt: time.Now().UTC().Truncate(time.Second), Region: s.region}
	var err error
	if s.cyborg == nil {
		s.note("accelerator: not in the catalog; Placement alone is read")
	} else if l.Accelerator, err = s.accelerator(ctx); err != nil {
		return l, fmt.Errorf("accelerator: %w", err)
	}
	if l.Placement, err = s.placement.read(ctx); err != nil {
		return l, fmt.Errorf("placement: %w", err)
	}
	return l, nil
}

// progressTo returns a note that writes one line for each call.
func progressTo(w io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}
