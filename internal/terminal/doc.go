// Package terminal keeps text of others from acting on the terminal that shows it.
package terminal
