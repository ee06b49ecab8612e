// Package program calls the programs that an operator names to do what a driver cannot: with JSON on
// standard input, no shell, an empty environment but PATH, and a limit of time after which all that the
// program has started is killed.
package program
