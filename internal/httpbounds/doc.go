// Package httpbounds limits what an HTTP client accepts from a server: the length and the type of
// an answer, the target of a redirect, and the conclusions from a status.
package httpbounds
