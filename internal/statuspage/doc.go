// Package statuspage draws the state of a simulated cloud: hosts with their provider trees
// and usage, instances, accelerator requests by state, the last requests as sequence
// diagrams, fault rules with their hit counts, and leaks.
//
// The page is rendered by the server and read-only, and loads nothing from other sites. Long
// lists are shown in parts of 100 and can be searched; the address has what is shown. A small
// script replaces a section when a stream of server-sent events says that it may have changed:
// it sends the ETag of what it shows, and gets nothing if that is still right. Without the
// script the page has to be reloaded. Everything is said in words and shapes, and reached by
// links and fields, for use without colour, without a mouse, on small screens and with screen
// readers. The caller restricts access.
package statuspage
