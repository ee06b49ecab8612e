package cyborgclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/internal/session"
)

// Owner is the project, the user and the roles of a token. They determine which accelerator
// requests Cyborg shows and which operations it allows.
type Owner struct {
	ProjectID, UserID string
	// Roles are names of roles, implied ones included.
	Roles []string
}

// IsAdmin reports whether the roles include admin, to which Cyborg shows the ARQs of all projects.
func (o Owner) IsAdmin() bool { return slices.Contains(o.Roles, "admin") }

// Owner returns the owner of the client's token, as Keystone answered the login or
// [Client.ForToken]. It is the zero value for a token that the caller has set, as in
// [NewWithEndpoint].
func (c *Client) Owner() Owner { return ownerOf(c.user.GetAuthResult()) }

// Provider returns the provider whose token the requests carry: the one given to [New] or
// [Client.ForProvider], or a provider that [NewFromCloud] or [Client.ForToken] made.
func (c *Client) Provider() *gophercloud.ProviderClient { return c.user }

func ownerOf(result gophercloud.AuthResult) (owner Owner) {
	login, ok := result.(interface{ ExtractInto(any) error })
	if !ok {
		return owner
	}
	var token struct {
		Project tokens.Project
		User    tokens.User
		Roles   []tokens.Role
	}
	_ = login.ExtractInto(&token)
	owner.ProjectID, owner.UserID = token.Project.ID, token.User.ID
	for _, role := range token.Roles {
		owner.Roles = append(owner.Roles, role.Name)
	}
	return owner
}

// ForProvider returns a client of the same Cyborg with the token of another user, as Nova
// makes one from the context of each request. Endpoint, service token, transport, retries,
// logger and what c has learned about the server's microversions are shared. The provider is not changed; it should be able to
// reauthenticate if its token may expire. The error matches ErrInvalid.
func (c *Client) ForProvider(user *gophercloud.ProviderClient) (*Client, error) {
	if user == nil {
		return nil, fmt.Errorf("cyborgclient: client for a user: %w: no provider", ErrInvalid)
	}
	return newClient(user, c.service.Endpoint, c.settings, c.server)
}

// ForToken is [Client.ForProvider] for a token, such as the X-Auth-Token of a request to
// the agent. One GET /auth/tokens, sent with the token itself, asks Keystone for its
// owner. The token cannot be renewed: after it has expired, calls return ErrUnauthorized.
// A token that Keystone refuses matches ErrUnauthorized, a Keystone that does not answer
// ErrUnavailable; a token that is not a valid header value, and a client without a Keystone, such
// as one of [NewWithEndpoint], are ErrInvalid.
func (c *Client) ForToken(ctx context.Context, token string) (*Client, error) {
	user, err := session.FromToken(ctx, c.user, token)
	if err != nil {
		return nil, tokenError(err)
	}
	return c.ForProvider(user)
}

func tokenError(err error) error {
	kind := ErrUnavailable
	switch {
	case errors.Is(err, session.ErrUnauthorized):
		return fmt.Errorf("cyborgclient: client for a token: %w: Keystone does not know the token, or it has expired", ErrUnauthorized)
	case errors.Is(err, session.ErrNoKeystone), errors.Is(err, session.ErrNoToken):
		kind = ErrInvalid
	}
	return fmt.Errorf("cyborgclient: client for a token: %w: %w", kind, err)
}
