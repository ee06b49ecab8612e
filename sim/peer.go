package sim

import (
	"context"
	"net/http"
)

// TokenVerifier answers the identity headers that keystonemiddleware would set for a valid
// token: X-User-Id, X-Project-Id, X-Roles (comma separated) and OpenStack-System-Scope. It
// answers an error for an invalid token. One that also has the method Revoke(token string)
// serves the faults that let a token expire ([fault.ExpireToken]).
type TokenVerifier interface {
	VerifyToken(token string) (http.Header, error)
}

// Endpoint is a peer that a service speaks to over HTTP.
type Endpoint struct {
	// URL is the root of the peer's API: "http://host/placement",
	// "http://host/compute/v2.1".
	URL string
	// Client sends the requests; nil means http.DefaultClient.
	Client *http.Client
	// Token returns the X-Auth-Token of a request; nil sends none.
	Token func(context.Context) (string, error)
}

// TB is the part of testing.TB that the simulators need; *testing.T, *testing.B and
// *testing.F have it.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
}
