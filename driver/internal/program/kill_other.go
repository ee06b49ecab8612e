//go:build !unix

package program

import "os/exec"

// killWhole kills the process alone: there are no process groups.
func killWhole(*exec.Cmd) {}
