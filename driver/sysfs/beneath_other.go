//go:build !linux

package sysfs

import (
	"io/fs"
	"os"
)

// beneath is for Linux; elsewhere os.Root does all.
type beneath struct{}

func newBeneath(*os.Root) *beneath { return nil }

func (b *beneath) close() error { return nil }

func (b *beneath) readFile(string) ([]byte, bool, error)       { return nil, false, nil }
func (b *beneath) readDir(string) ([]fs.DirEntry, bool, error) { return nil, false, nil }
func (b *beneath) readlink(string) (string, bool, error)       { return "", false, nil }
