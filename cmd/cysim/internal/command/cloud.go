package command

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/session"
)

// LogIn logs in to a cloud of clouds.yaml or, with neither a name nor OS_CLOUD, to the one of
// the variables OS_AUTH_URL, OS_USERNAME and so on. Bad credentials files are bad input.
// Prepare, unless nil, may change the client that sends all requests.
func LogIn(ctx context.Context, name string, prepare func(*http.Client)) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	cloud, err := session.ReadCloud(name)
	if err != nil {
		return nil, cloud.Endpoint, BadInput(fmt.Errorf("log in: %w", err))
	}
	provider, err := cloud.LogIn(ctx, prepare)
	return provider, cloud.Endpoint, err
}
