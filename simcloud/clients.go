package simcloud

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/sim"
)

// Password is the password of the users of a cloud without their own password ([User]).
const Password = keystone.Password

// tokenSource issues tokens of a user, each valid for at least half of the token lifetime, and
// renews them.
func (c *Cloud) tokenSource(user string) func(context.Context) (string, error) {
	var mu sync.Mutex
	var token string
	var until time.Time
	var loads int64
	return func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		now := c.clock.Now()
		if token != "" && now.Before(until) && loads == c.loads.Load() && c.identity.IsValid(token) { // it may have been revoked
			return token, nil
		}
		issued, err := c.identity.IssueToken(user)
		if err == nil {
			token, loads, until = issued, c.loads.Load(), now.Add(c.identity.TokenLifetime()/2)
		}
		return issued, err
	}
}

// Provider returns a client of the user admin that reaches the cloud in process. A login
// that fails ends the test.
func (c *Cloud) Provider(t sim.TB) *gophercloud.ProviderClient {
	t.Helper()
	provider, err := c.ProviderClient(t.Context(), "admin")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return provider
}

// ServiceProvider returns a client of the user nova, which has the role service: its token
// is the X-Service-Token that binding and unbinding require. A login that fails ends the
// test.
func (c *Cloud) ServiceProvider(t sim.TB) *gophercloud.ProviderClient {
	t.Helper()
	provider, err := c.ProviderClient(t.Context(), "nova")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return provider
}

// ProviderClient logs a user in over HTTP, in process: admin (project admin, role admin),
// demo (project demo, role member), nova (project service, role service), cyborg, or one of
// [Model.Users]. The error is for an unknown user and a failed login. The client logs in again when its token
// expires.
func (c *Cloud) ProviderClient(ctx context.Context, user string) (*gophercloud.ProviderClient, error) {
	project, _, err := c.identity.ProjectOf(user)
	if err != nil {
		return nil, fmt.Errorf("simcloud: log in: %w (known: %v)", err, c.identity.Users())
	}
	provider, err := openstack.NewClient(baseURL + "/identity/v3")
	if err != nil {
		return nil, fmt.Errorf("simcloud: log in as %s: %w", user, err)
	}
	provider.HTTPClient = http.Client{Transport: c.transport}
	err = openstack.Authenticate(ctx, provider, gophercloud.AuthOptions{
		Username: user, Password: c.PasswordOf(user), DomainName: "Default", AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectName: project, DomainName: "Default"},
	})
	if err != nil {
		return nil, fmt.Errorf("simcloud: log in as %s: %w", user, err)
	}
	return provider, nil
}

// ServiceToken returns a token of the user nova with the role service, for the header
// X-Service-Token that binding and unbinding require.
func (c *Cloud) ServiceToken(ctx context.Context) (string, error) { return c.serviceToken(ctx) }

// PasswordOf returns the password of a user, or "" for an unknown one.
func (c *Cloud) PasswordOf(user string) string {
	password, err := c.identity.PasswordOf(user)
	if err != nil {
		return ""
	}
	return password
}

// ProjectID returns the id of the project of a user's roles, or "" for an unknown user.
func (c *Cloud) ProjectID(user string) string {
	_, id, err := c.identity.ProjectOf(user)
	if err != nil {
		return ""
	}
	return id
}
