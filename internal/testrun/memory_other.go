//go:build !linux

package testrun

// memoryDir returns "": only Linux is known to have a file system in memory.
func memoryDir() string { return "" }
