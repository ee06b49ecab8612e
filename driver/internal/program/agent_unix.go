//go:build unix && !linux

package program

import "syscall"

// endWithAgent does nothing: only Linux can end a process with its parent.
func endWithAgent(*syscall.SysProcAttr) {}
