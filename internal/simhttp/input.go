package simhttp

import "net/http"

// Input is what a route reads of a request beside its path and headers. What a client
// sends beyond that is recorded as unrecognized.
type Input struct {
	// Query are the query keys that are read; a trailing * stands for any end, * alone
	// for every key, and one after ! is not read although a * fits.
	Query []string
	// Body are the paths of the members of a JSON body that are read: "name",
	// "[].groups[].*". A name is a member, * any member, [] the items of an array; what is
	// below the last name belongs to it. A member after ! is not read although a * fits.
	// "" is a body that the service checks as a whole; without any path the body is not read.
	// Names are exact in case, as they are for the real services.
	Body []string
	// BodyOf, if set, reports whether the body of a request is read at all.
	BodyOf func(*http.Request) bool
	// Data marks a body that is not JSON but data, such as an image.
	Data bool
}
