package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// Cloud is how to reach a cloud.
type Cloud struct {
	Endpoint gophercloud.EndpointOpts // region and interface

	auth gophercloud.AuthOptions
	tls  *tls.Config
}

// ReadCloud reads a cloud of clouds.yaml. An empty name means OS_CLOUD or, without it,
// the variables OS_AUTH_URL, OS_USERNAME and so on.
func ReadCloud(name string) (Cloud, error) {
	if cmp.Or(name, os.Getenv("OS_CLOUD")) == "" && os.Getenv("OS_AUTH_URL") != "" {
		return environment()
	}
	var opts []clouds.ParseOption
	if name != "" {
		opts = append(opts, clouds.WithCloudName(name))
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(opts...)
	if err != nil {
		return Cloud{}, fmt.Errorf("read cloud %q from clouds.yaml: %w", name, err)
	}
	return Cloud{Endpoint: endpoint, auth: auth, tls: tlsConfig}, nil
}

// environment reads the variables of a cloud.
func environment() (Cloud, error) {
	auth, err := openstack.AuthOptionsFromEnv()
	if err != nil {
		return Cloud{}, fmt.Errorf("read the cloud of OS_AUTH_URL: %w", err)
	}
	availability := strings.TrimSuffix(cmp.Or(os.Getenv("OS_INTERFACE"), "public"), "URL") // internalURL is an older form
	return Cloud{
		Endpoint: gophercloud.EndpointOpts{Region: os.Getenv("OS_REGION_NAME"), Availability: gophercloud.Availability(availability)},
		auth:     auth,
	}, nil
}

// LogIn logs in. The provider logs in again when its token expires, reads bounded
// answers, and follows no redirect to another server, which would carry the password
// there. Prepare, unless nil, may change the HTTP client before.
func (c Cloud) LogIn(ctx context.Context, prepare func(*http.Client)) (*gophercloud.ProviderClient, error) {
	client := http.Client{Transport: transport(c.tls)}
	if prepare != nil {
		prepare(&client)
	}
	auth := c.auth
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(httpbounds.Client(client, httpbounds.AnswerLimit)))
	if err != nil {
		return nil, fmt.Errorf("log in at %s: %w", auth.IdentityEndpoint, err)
	}
	return provider, nil
}

// transport returns the standard transport with the TLS configuration.
func transport(config *tls.Config) http.RoundTripper {
	if config == nil {
		return http.DefaultTransport
	}
	own := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		own = standard.Clone()
	}
	own.TLSClientConfig = config
	return own
}
