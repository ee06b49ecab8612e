package simhttp

import "net/http"

// Input is what a route reads of a request beside its path and headers. What a client
// sends beyond that is recorded as unrecognized.
type Input struct {
	// Query and Body are those of [sim.Route].
	Query, Body []string
	// BodyOf, if set, reports whether the body of a request is read at all.
	BodyOf func(*http.Request) bool
	// Data marks a body that is not JSON but data, such as an image.
	Data bool
}
