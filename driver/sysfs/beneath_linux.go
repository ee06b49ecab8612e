package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// beneath opens names below a directory with one call of the kernel, which follows links and
// refuses links that lead out. os.Root does the same with one call for each part of a name: four
// times the work for a discovery.
type beneath struct {
	dir *os.File
	// off is set where the kernel has no openat2 (before Linux 5.6), or a filter of
	// calls refuses it.
	off atomic.Bool
}

// newBeneath returns nil where it is not supported.
func newBeneath(root *os.Root) *beneath {
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	return &beneath{dir: dir}
}

func (b *beneath) close() error {
	if b == nil {
		return nil
	}
	return b.dir.Close()
}

const maxBusy = 16 // times that a name is tried while the tree changes under it

// open returns a file descriptor. Where the second result is false the kernel does not
// support the call, and os.Root is to be used.
func (b *beneath) open(name string, flags uint64) (fd int, supported bool, err error) {
	if b == nil || b.off.Load() {
		return -1, false, nil
	}
	conn, err := b.dir.SyscallConn()
	if err != nil {
		return -1, true, err
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	controlErr := conn.Control(func(dir uintptr) {
		for range maxBusy {
			fd, err = unix.Openat2(int(dir), name, &how)
			if err != unix.EINTR && err != unix.EAGAIN {
				return
			}
		}
	})
	switch {
	case controlErr != nil:
		return -1, true, fs.ErrClosed
	case err == unix.ENOSYS || err == unix.EPERM || err == unix.EINVAL || err == unix.E2BIG:
		b.off.Store(err == unix.ENOSYS || err == unix.EPERM)
		return -1, false, nil
	case err == unix.EAGAIN || err == unix.EINTR:
		return -1, false, nil
	case err == unix.EXDEV:
		return -1, true, ErrEscapes
	}
	return fd, true, err
}

// readFile is ReadFile without the name in its errors.
func (b *beneath) readFile(name string) (data []byte, supported bool, err error) {
	fd, supported, err := b.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil || !supported {
		return nil, supported, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, true, err
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, true, ErrNotRegular
	case stat.Size > maxFile:
		return nil, true, ErrTooLarge
	}
	data, err = readAll(fd, stat.Size)
	return data, true, err
}

// readAll reads to the end. size is the size that the file system reports: the real size on disk,
// a page for an attribute of a live sysfs.
func readAll(fd int, size int64) ([]byte, error) {
	var first [512]byte
	buffer, n := first[:], 0
	for {
		got, err := unix.Read(fd, buffer[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case got == 0:
			return append([]byte{}, buffer[:n]...), nil
		}
		if n += got; n > maxFile {
			return nil, ErrTooLarge
		}
		if int64(n) == size {
			return append([]byte{}, buffer[:n]...), nil
		}
		if n == len(buffer) {
			buffer = append(buffer, make([]byte, 3*len(buffer))...)
		}
	}
}

// readDir is ReadDir without the name in its errors, in the order of the directory.
func (b *beneath) readDir(name string) (entries []fs.DirEntry, supported bool, err error) {
	fd, supported, err := b.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil || !supported {
		return nil, supported, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	entries, err = f.ReadDir(-1)
	return entries, true, file.Cause(err)
}

// readlink is Readlink without the name in its errors.
func (b *beneath) readlink(name string) (target string, supported bool, err error) {
	fd, supported, err := b.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil || !supported {
		return "", supported, err
	}
	defer unix.Close(fd)
	var buffer [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buffer[:])
	if errors.Is(err, unix.ENOENT) { // the kernel's answer for a descriptor of no link
		err = fs.ErrInvalid
	}
	if err != nil {
		return "", true, err
	}
	return string(buffer[:n]), true, nil
}
