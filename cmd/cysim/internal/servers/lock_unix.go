//go:build unix

package servers

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file until it is closed or the process ends, unless another process has locked it.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// runs reports whether the server of a file runs: it holds the lock.
func runs(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	locked, err := tryLock(file)
	return err == nil && !locked
}

// signal asks a process to end.
func signal(process *os.Process) error { return process.Signal(syscall.SIGTERM) }
