// Package servers keeps a list of the running servers of a user, each in a file of its own, and ends them.
package servers
