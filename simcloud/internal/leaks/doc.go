// Package leaks compares the state of the services of a cloud, and draws the resources in use.
package leaks
