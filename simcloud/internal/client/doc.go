// Package client calls the services of a cloud: it makes what a model describes, and reads a Placement that
// is not part of the process.
package client
