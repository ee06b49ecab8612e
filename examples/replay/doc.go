// Package replay is a test that was not written but recorded: what clients sent to a
// simulated cloud, as GET /_sim/requests/gotest and simcloud.Cloud.WriteGoTest write it.
// It makes the same cloud again and sends the same requests.
//
// A test of simcloud writes it anew and compares. See docs/record.md.
package replay
