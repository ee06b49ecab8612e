package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/simcloud"
)

// lockTrees locks the directories with the hardware of the hosts, because two agents of one machine
// would offer its devices twice. The locks are flock's, of the directories themselves: they end with
// the process, and need no right to write. The error is bad input and names the directory and the
// process that has the lock.
func lockTrees(hosts []simcloud.Host) (unlock func(), err error) {
	var held []*os.File
	unlock = func() {
		for _, dir := range held {
			_ = dir.Close() // nothing was written
		}
	}
	var seen []os.FileInfo
	for _, host := range hosts {
		if host.Sysfs == nil || host.Sysfs.Dir == "" {
			continue
		}
		dir, err := os.Open(host.Sysfs.Dir)
		if err != nil {
			continue // whoever reads it says why not
		}
		held = append(held, dir)
		info, err := dir.Stat()
		if err != nil || slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			continue
		}
		seen = append(seen, info)
		if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
			unlock()
			return nil, command.BadInput(fmt.Errorf("--sysfs %s: %s is an agent of this machine already: it holds the lock of the directory",
				host.Sysfs.Dir, lockHolder(info)))
		}
	}
	return unlock, nil
}

// lockHolder names the process that holds the lock of a file, as far as /proc/locks tells:
//
//	1: FLOCK  ADVISORY  WRITE 1234 00:16:1 0 EOF
func lockHolder(info os.FileInfo) string {
	const unknown = "another process"
	stat, ok := info.Sys().(*syscall.Stat_t)
	file, err := os.Open("/proc/locks")
	if !ok || err != nil {
		return unknown
	}
	defer file.Close()
	major, minor := stat.Dev>>8&0xfff|stat.Dev>>32&^0xfff, stat.Dev&0xff|stat.Dev>>12&^0xff
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
