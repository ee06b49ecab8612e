//go:build unix

package sysfs_test

import "syscall"

var mkfifo = syscall.Mkfifo
