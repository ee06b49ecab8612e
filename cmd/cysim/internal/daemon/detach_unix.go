//go:build unix

package daemon

import "syscall"

// detached makes a process that no signal for the terminal's group reaches.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
