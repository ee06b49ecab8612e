package testrun

import "syscall"

// memoryDir returns a file system in memory with room for the directories of many tests, or "". Containers often have one
// of 64 MiB from which nothing may be executed.
func memoryDir() string {
	const (
		dir    = "/dev/shm"
		room   = 1 << 30 // in bytes
		noExec = 0x8     // ST_NOEXEC of statfs(2)
	)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Flags&noExec != 0 || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	return dir
}
