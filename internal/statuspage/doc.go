// Package statuspage draws the state of a simulated cloud for people: hosts with their
// provider trees and what is used of them, accelerator requests by state, the last
// requests as sequence diagrams, faults with their hits, and leaks.
//
// The page is rendered by the server and read-only: it has no form and asks for nothing
// from elsewhere. A small script replaces its content when a stream of server-sent events
// says that something changed; without it the page is the same, and is reloaded by hand.
// It says everything in words and shapes, so that it can be read without colour, from a
// phone's screen and by a screen reader. It decides nothing: who may see it is the
// caller's business.
package statuspage
