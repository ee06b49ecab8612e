// Package statuspage draws the state of a simulated cloud: hosts with their provider trees
// and usage, accelerator requests by state, the last requests as sequence diagrams, fault
// rules with their hit counts, and leaks.
//
// The page is rendered by the server and read-only: it has no forms and loads nothing from
// other sites. A small script replaces its content when a stream of server-sent events
// reports a change; without the script the page has to be reloaded. Everything is said in
// words and shapes, for use without colour, on small screens and with screen readers. The
// caller restricts access.
package statuspage
