// Package session logs in to a cloud and authenticates requests to its services: with
// the token of a user and, for services that ask for it, the token of a service. It
// renews both when a service refuses them.
//
// gophercloud renews only the token of the user, and if the request that began a renewal is
// cancelled, it fails every request that waits for the renewal.
package session
