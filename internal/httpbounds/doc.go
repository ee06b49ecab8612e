// Package httpbounds limits what an HTTP client grants to a server: the length and the kind of an
// answer, where a redirect may lead, and what a status proves.
package httpbounds
