// Package httpbounds limits what an HTTP client grants to a server: the length and the kind of an
// answer, and where a redirect may lead.
package httpbounds
