// Package servers keeps a list of the running servers of a user, one file per server, and ends them.
package servers
