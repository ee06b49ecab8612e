// Package client calls the services of a cloud: it creates the resources of a model, and reads an
// external Placement.
package client
