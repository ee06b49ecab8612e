// Package program calls programs of the operator that do what a driver cannot. They get JSON on
// standard input, no shell, and an environment with only PATH. After a time limit the program is
// killed with all of its children.
package program
