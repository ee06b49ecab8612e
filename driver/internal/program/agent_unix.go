//go:build unix && !linux

package program

import "syscall"

// endWithAgent does nothing: only Linux ends a process with the one that started it.
func endWithAgent(*syscall.SysProcAttr) {}
