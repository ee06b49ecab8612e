// Package daemon restarts cysim as a separate process in the background.
package daemon
