//go:build !unix

package sysfs_test

import "errors"

func mkfifo(string, uint32) error { return errors.ErrUnsupported }
