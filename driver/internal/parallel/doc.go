// Package parallel runs many small jobs concurrently.
package parallel
