// Package completion completes the command line of cysim in shells.
package completion
