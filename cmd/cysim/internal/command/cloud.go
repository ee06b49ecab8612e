package command

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

// LogIn logs in to a cloud of clouds.yaml or, with neither a name nor OS_CLOUD, to the one of
// the variables OS_AUTH_URL, OS_USERNAME and so on. Bad credentials files are bad input.
// Prepare, unless nil, may change the client that sends all requests. No redirect to another
// host is followed, because it would carry the token there.
func LogIn(ctx context.Context, name string, prepare func(*http.Client)) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	auth, endpoint, transport, err := credentials(name)
	if err != nil {
		return nil, endpoint, BadInput(fmt.Errorf("log in: %w", err))
	}
	client := http.Client{Transport: transport, CheckRedirect: sameHost}
	if prepare != nil {
		prepare(&client)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(client))
	if err != nil {
		return nil, endpoint, fmt.Errorf("log in at %s: %w", auth.IdentityEndpoint, err)
	}
	return provider, endpoint, nil
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

// sameHost is a redirect policy.
func sameHost(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; len(via) >= 10 || r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}
