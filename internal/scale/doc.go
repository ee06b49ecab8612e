// Package scale runs benchmarks for clouds of several sizes, and reports their rates relative to
// the smallest cloud. It builds no clouds.
package scale
