package simhttp

import "net/http"

// Input lists the parts of a request that a route reads, in addition to its path and headers. Everything else
// that a client sends is recorded as unrecognized.
type Input struct {
	// Query and Body are those of [sim.Route].
	Query, Body []string
	// BodyOf, if set, reports whether the body of a request is read at all.
	BodyOf func(*http.Request) bool
	// Data marks a body that is not JSON but data, such as an image.
	Data bool
}
