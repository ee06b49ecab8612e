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

// Password is the default password of the users of a cloud.
const Password = keystone.Password

// tokenSource issues tokens of a user and renews them before they expire.
type tokenSource struct {
	identity *keystone.Server
	clock    sim.Clock
	user     string

	mu    sync.Mutex
	token string
	until time.Time
}

func (c *Cloud) tokenSource(user string) *tokenSource {
	s := &tokenSource{identity: c.identity, clock: c.clock, user: user}
	c.tokens = append(c.tokens, s)
	return s
}

// forget makes the next call of Token issue a new one.
func (s *tokenSource) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

// Token returns a token that is valid for at least half of the token lifetime.
func (s *tokenSource) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.token != "" && now.Before(s.until) {
		return s.token, nil
	}
	token, err := s.identity.IssueToken(s.user)
	if err != nil {
		return "", err
	}
	s.token, s.until = token, now.Add(s.identity.TokenLifetime()/2)
	return token, nil
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

// ProviderClient logs a user in over HTTP, in process: admin (project admin, role admin),
// demo (project demo, role member), nova (project service, role service) or cyborg. The
// error is for an unknown user and a failed login. The client logs in again when its token
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
		Username: user, Password: Password, DomainName: "Default", AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectName: project, DomainName: "Default"},
	})
	if err != nil {
		return nil, fmt.Errorf("simcloud: log in as %s: %w", user, err)
	}
	return provider, nil
}

// ServiceToken returns a token of the user nova with the role service, for the header
// X-Service-Token that binding and unbinding require.
func (c *Cloud) ServiceToken(ctx context.Context) (string, error) { return c.nova.Token(ctx) }

// ProjectID returns the id of the project of a user's roles, or "" for an unknown user.
func (c *Cloud) ProjectID(user string) string {
	_, id, err := c.identity.ProjectOf(user)
	if err != nil {
		return ""
	}
	return id
}
