package main

import (
	"os"
	"slices"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/simcloud"
)

// lockTrees locks the directories with the hardware of the hosts, each once.
func lockTrees(hosts []simcloud.Host) (unlock func(), err error) {
	var held []func()
	unlock = func() {
		for _, each := range held {
			each()
		}
	}
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
		one, err := command.LockTree(host.Sysfs.Dir, true)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, one)
	}
	return unlock, nil
}
