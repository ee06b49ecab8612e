package externalevent

import (
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/internal/session"
)

// HasRole returns a check for [WithAuthorize]: whether the token in X-Auth-Token has one of the
// given roles. It asks Keystone for each request. Nova's policy is "service" or "admin". A
// request is also refused when Keystone does not answer, and when its token comes from an
// application credential with access rules: Keystone does not validate it for a receiver that
// cannot enforce them.
func HasRole(identity *gophercloud.ServiceClient, roles ...string) func(*http.Request) bool {
	client, invalid := session.Service(identity)
	return func(r *http.Request) bool {
		token := r.Header.Get("X-Auth-Token")
		if token == "" || invalid != nil {
			return false
		}
		granted, err := tokens.Get(r.Context(), client, token).ExtractRoles()
		return err == nil && slices.ContainsFunc(granted, func(role tokens.Role) bool { return slices.Contains(roles, role.Name) })
	}
}
