// Package load is the command cysim load: it runs spawn/delete cycles against an embedded
// cloud or a real one, and reports rates, latencies and leaks.
package load
