// Package inputtest proves for the tests of a simulated service that what its routes
// declare as read ([simhttp.Input]) is read, and that what they do not declare is not.
//
// It knows nothing of the services: they bring requests that use everything, and a way to
// send one to a service that is new each time. It does not follow any upstream source.
//
//	inputtest.Check(t, service.Router.Routes(), cases, send)
package inputtest
