//go:build !unix

package servers

import "os"

// tryLock does nothing: an open file cannot be removed here, which is as good.
func tryLock(*os.File) (bool, error) { return true, nil }

// runs reports whether the server of a file runs: its open file cannot be removed.
func runs(name string) bool { return os.Remove(name) != nil }

// signal ends a process: it cannot be asked.
func signal(process *os.Process) error { return process.Kill() }
