// Package scale runs benchmarks for clouds of several sizes, and tells their rates in parts
// of that of the smallest one. It builds no clouds.
package scale
