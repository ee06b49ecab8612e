// Package statuspage draws the state of a simulated cloud: hosts with their provider trees
// and usage, instances, accelerator requests by state, the last requests as sequence
// diagrams, fault rules with their hit counts, and leaks.
//
// The page is rendered by the server and read-only, and loads nothing from other sites. Long
// lists are paged by 100 and can be searched; the URL selects the part. A small script replaces a
// section when a stream of server-sent events announces a change. It sends the ETag of the
// displayed section, and gets nothing if that is still current. Without the script the page has
// to be reloaded. The page uses words and shapes instead of colours, and links and fields, for
// use without a mouse, on small screens and with screen readers. The caller restricts access.
package statuspage
