//go:build unix

package command

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// LockTree locks the directory with the hardware of a machine until unlock is called or the process ends. An agent
// has it alone, because two agents of one machine would offer its devices twice; commands share it. The lock is flock's, of
// the directory itself, and needs no right to write. The error is bad input and names the directory and the
// process that has the lock. A directory that cannot be opened is not locked: whoever reads it says why not.
func LockTree(dir string, alone bool) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return func() {}, nil
	}
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	unlock = func() {
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) // a child that has not begun its program has the file, too
		_ = file.Close()                                   // nothing was written
	}
	if err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		defer unlock()
		return nil, BadInput(fmt.Errorf("--sysfs %s: %s is an agent of this machine already: it holds the lock of the directory", dir, lockHolder(file)))
	}
	return unlock, nil
}

// lockHolder names the process that holds the lock of a file, if /proc/locks has it:
//
//	1: FLOCK  ADVISORY  WRITE 1234 00:16:1 0 EOF
func lockHolder(locked *os.File) string {
	const unknown = "another process"
	info, err := locked.Stat()
	if err != nil {
		return unknown
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	file, err := os.Open("/proc/locks")
	if !ok || err != nil {
		return unknown
	}
	defer file.Close()
	dev := uint64(stat.Dev) //nolint:unconvert // it has 32 bits elsewhere
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
	at := fmt.Sprintf("%02x:%02x:%d", major, minor, stat.Ino)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == at {
			return "process " + fields[4]
		}
	}
	return unknown
}
