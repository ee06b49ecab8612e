// Package keystone is the little of Identity v3 that OpenStack's clients and the
// simulated services need: password and token authentication, scopes, the catalog,
// validation and revocation of tokens, application credentials, and reads of
// projects, users, roles, grants, services and regions.
//
// It deliberately has no way to change users, projects or roles, no federation, no
// trusts, no unified limits and no security: passwords are public, and tokens are derived from
// the seed, to make runs repeatable. URLs in answers are built from the request's Host, so the
// server can be reached under any name.
//
// Server.State has the tokens and the application credentials, by the SHA-256 of their
// secrets. Users, projects, roles and services come from the configuration.
//
// Behaviour follows keystone/api/auth.py, keystone/auth/core.py, keystone/auth/schema.py,
// keystone/application_credential/schema.py, keystone/api/users.py, keystone/api/discovery.py
// and keystone/exception.py of Keystone 30 (2026.2), and what keystoneauth, openstacksdk and
// gophercloud ask of them. docs/dev/keystone.md lists the differences.
//
//	identity := keystone.New(keystone.Config{Services: []keystone.CatalogEntry{
//		{Type: "placement", Name: "placement", Path: "/placement"},
//	}})
//	who, err := identity.Identify(token) // user, project, roles, ...
package keystone
