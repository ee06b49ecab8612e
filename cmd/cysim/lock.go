package main

import (
	"os"
	"slices"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/simcloud"
)

// treeLocks are the locks of the directories with the hardware of hosts.
type treeLocks []func()

func (l treeLocks) release() {
	for _, unlock := range l {
		unlock()
	}
}

// take locks the directories of hosts, each once.
func (l *treeLocks) take(hosts []simcloud.Host) error {
	var seen []os.FileInfo
	for _, host := range hosts {
		if host.Sysfs == nil || host.Sysfs.Dir == "" {
			continue
		}
		info, err := os.Stat(host.Sysfs.Dir)
		if err != nil || slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			continue
		}
		seen = append(seen, info)
		unlock, err := command.LockTree(host.Sysfs.Dir, true)
		if err != nil {
			return err
		}
		*l = append(*l, unlock)
	}
	return nil
}
