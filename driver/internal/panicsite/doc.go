// Package panicsite names the place of a panic.
package panicsite
