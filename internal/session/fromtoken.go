package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// ErrNoKeystone: nothing names the Keystone that could validate a token.
var ErrNoKeystone = errors.New("the provider names no Keystone")

// FromToken returns a provider with a token of another user of the cloud of a provider. It asks
// Keystone for the owner, with the token itself, which every user may do. The token cannot be
// renewed. A token that Keystone does not know matches ErrUnauthorized. No error has the token.
func FromToken(ctx context.Context, cloud *gophercloud.ProviderClient, token string) (*gophercloud.ProviderClient, error) {
	if cloud.IdentityBase == "" {
		return nil, ErrNoKeystone
	}
	user := &gophercloud.ProviderClient{
		IdentityBase: cloud.IdentityBase, IdentityEndpoint: cloud.IdentityEndpoint,
		EndpointLocator: cloud.EndpointLocator, UserAgent: cloud.UserAgent, HTTPClient: cloud.HTTPClient,
	}
	user.UseTokenLock()
	user.SetToken(token)
	switch _, err := currentToken(ctx, user); {
	case err != nil:
		return nil, err
	case token == "":
		return nil, fmt.Errorf("%w: it is empty", ErrNoToken)
	}
	keystone := &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{HTTPClient: httpbounds.Client(cloud.HTTPClient, httpbounds.AnswerLimit), UserAgent: cloud.UserAgent},
		Endpoint:       cloud.IdentityBase + "v3/", Type: "identity",
		// A token with access rules is only shown to a service that says it enforces them; Cyborg does.
		MoreHeaders: map[string]string{"OpenStack-Identity-Access-Rules": "1"},
	}
	keystone.UseTokenLock()
	keystone.SetToken(token)
	sent := Outcome{Sent: []string{token}}
	answer := tokens.Get(ctx, keystone, token)
	if answer.Err == nil {
		answer.Header.Set("X-Subject-Token", token) // also if a proxy drops it
		answer.Err = user.SetTokenAndAuthResult(answer)
	}
	if answer.Err != nil {
		return nil, fmt.Errorf("ask %s for the owner of the token: %w", cloud.IdentityBase, refusal(sent.Redacted(answer.Err)))
	}
	return user, nil
}
