// Package simhttp is what the simulated services share below their own
// dialects: routing by path segments, request ids, faults, the record of
// requests, the clock and the in-process transport.
//
// It knows nothing of Placement, Cyborg, Keystone or Nova: authentication
// order, microversion rules and error bodies differ between them and live with
// each service. A [Service] wraps such a service: it names the operation of a
// request, lets the faults act, calls the service's own handler and records
// what came out.
//
// The record keeps what was sent, secrets taken out ([Sent]), so that it can be sent
// again, and what of it the route does not declare as read ([Input], [Exchange.Unread]).
// A [Recorder] may let every service refuse that.
//
// Faults and waits happen before the service's handler takes any lock:
// sleeping under a lock would stop virtual time in a testing/synctest bubble.
package simhttp
