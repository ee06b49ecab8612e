// Package terminal escapes untrusted text, so that it cannot control the terminal.
package terminal
