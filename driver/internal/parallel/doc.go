// Package parallel does many small jobs side by side.
package parallel
