// Package simhttp is the HTTP side of every simulated service: routing by path segments,
// handlers and errors, tokens, request ids, faults, the record of requests and the
// in-process transport.
//
// A [Service] finds the route of a request, lets the fault rules act, calls the service's
// [Handler] with a [Call] and records the exchange. The order of authentication and
// microversion, and the form of an error, differ between services: each supplies them as
// Service.Handler and Service.WriteError.
//
// The record lists which query keys and members of the body a route does not read
// ([Input]); a [Recorder] may let every service refuse such requests.
//
// Faults and waits happen before a handler takes any lock: sleeping under a lock would
// stop virtual time in a testing/synctest bubble.
package simhttp
