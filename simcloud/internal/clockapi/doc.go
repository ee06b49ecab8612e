// Package clockapi is the clock of a cloud as /_sim/clock shows and changes it.
package clockapi
