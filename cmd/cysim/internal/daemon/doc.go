// Package daemon starts cysim again as a process of its own that goes on in the background.
package daemon
